package ollama

import (
	"strings"
	"testing"
)

// FuzzModelfile: any text is refused or read, and what is read says the same when it is written again.
func FuzzModelfile(f *testing.F) {
	f.Add("FROM a\nSYSTEM \"\"\"x\ny\"\"\"\nPARAMETER stop \"b\"\nMESSAGE user c\n# d\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseModelfile(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, x := range all {
			if x.args == "" || strings.Contains(x.args, `"""`) || strings.HasSuffix(x.args, `"`) || strings.Contains(x.args, "\r") || x.args != strings.TrimSpace(x.args) && !strings.Contains(x.args, "\n") {
				return // there is another way of writing it
			}
			b.WriteString(x.command + ` """` + x.args + `"""` + "\n")
		}
		again, err := parseModelfile(b.String())
		if err != nil || len(again) != len(all) {
			t.Fatalf("%q has %d instructions, and %q has %d: %v", text, len(all), b.String(), len(again), err)
		}
		for i := range all {
			if again[i].command != all[i].command || again[i].args != all[i].args {
				t.Errorf("%+v, written again %+v", all[i], again[i])
			}
		}
	})
}
