package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCompleteValues: what shells ask of the program has the values that are possible, and files are completed beside them.
func TestCompleteValues(t *testing.T) {
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	r := root()
	r.SetArgs([]string{"alias", "quickest", "qwen3:4b"})
	if err := r.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want string // names with commas between them
	}{
		{"run --backend ", "cpu,cuda,ref"},
		{"bench --backend ", "cpu,cuda"},
		{"serve --kv-type b", "bf16"},
		{"serve --quantization int", "int8,int4"},
		{"serve --policy l", "longest-prefix"},
		{"serve --prefix-index r", "radix"},
		{"convert x --type Q4_K", "Q4_K_S,Q4_K_M"},
		{"roofline --device h200", "h200"},
		{"run quick", "quickest"},
		{"serve -m gpt-oss:", "gpt-oss:20b,gpt-oss:120b"},
		{"pull gpt-oss:2", "gpt-oss:20b"},
		{"rm gpt", ""},
	} {
		r, out := root(), &strings.Builder{}
		r.SetOut(out)
		r.SetErr(&strings.Builder{})
		words := strings.Split(c.line, " ")
		r.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
		if err := r.Execute(); err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		got := lines[:len(lines)-1]
		if len(got) != len(strings.FieldsFunc(c.want, func(r rune) bool { return r == ',' })) {
			t.Errorf("ridge %s is completed with %q, not %s", c.line, got, c.want)
		}
		for _, name := range got {
			if !strings.Contains(","+c.want+",", ","+name+",") {
				t.Errorf("ridge %s is completed with %q, not %s", c.line, name, c.want)
			}
		}
		if lines[len(lines)-1] != ":0" {
			t.Errorf("ridge %s: directive %s, and not that of files", c.line, lines[len(lines)-1])
		}
	}
}
