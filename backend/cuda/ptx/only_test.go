package ptx

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/ptx/archive"
)

// TestOnly cuts every kernel out: what is left has that one alone, whole, and what it names in shared memory.
func TestOnly(t *testing.T) {
	entries, err := archive.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	entry, variable := regexp.MustCompile(`\.entry (\w+)\(`), regexp.MustCompile(`\.(?:shared|const) [^;]* (_Z\w+)`)
	for _, e := range entries {
		text, file := e.Text, e.Module
		all := entry.FindAllSubmatch(text, -1)
		if len(all) == 0 {
			continue // all its kernels are for the other target
		}
		for _, m := range all {
			only, err := Only(text, string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			left := entry.FindAllSubmatch(only, -1)
			if len(left) != 1 || !bytes.Equal(left[0][1], m[1]) || bytes.Count(only, []byte("\n{")) != bytes.Count(only, []byte("\n}")) {
				t.Errorf("%s: of %s there is left %q", file, m[1], left)
			}
			from := bytes.Index(text, m[0])
			body := text[from : from+bytes.Index(text[from:], []byte("\n}"))]
			if !bytes.Contains(only, body) {
				t.Errorf("%s: %s is not whole", file, m[1])
			}
		}
		first, err := Only(text, string(all[0][1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range variable.FindAllSubmatch(text, -1) {
			if !bytes.Contains(first, v[1]) {
				t.Errorf("%s: the variable %s is lost", file, v[1])
			}
		}
	}
	if _, err := Only([]byte(".entry one()\n{\n}\n"), "two"); err == nil {
		t.Error("a kernel that is not there is no error")
	}
}
