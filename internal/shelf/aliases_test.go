package shelf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAliases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ridge", "aliases")
	a, err := OpenAliases(file)
	if err != nil || len(a.Names) != 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, one := range [][2]string{{"fast", "qwen3:4b"}, {"mine:v2", "./dir with space/x.gguf"}} {
		if err := a.Set(one[0], one[1]); err != nil {
			t.Fatal(err)
		}
	}
	for name, model := range map[string]string{"a b": "x", "../x": "x", "x.gguf": "y", "again": "fast", "self": "self", "line": "a\nb", "": "x"} {
		if err := a.Set(name, model); err == nil {
			t.Errorf("the alias %q for %q was taken", name, model)
		}
	}
	b, err := OpenAliases(file)
	if err != nil || len(b.Names) != 2 || b.Names["mine:v2"] != "./dir with space/x.gguf" {
		t.Fatalf("%+v, %v", b, err)
	}
	if err := b.Set("fast", ""); err != nil {
		t.Fatal(err)
	}
	if err := b.Set("fast", ""); err == nil {
		t.Error("an alias that is not there was taken away")
	}
	if err := os.WriteFile(file, []byte("# mine\n\nfast\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAliases(file); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("a line without a model: %v", err)
	}
}
