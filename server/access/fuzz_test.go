package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReadKeys: a file of keys is refused without a word of a secret, or each key has a name and limits that can be.
func FuzzReadKeys(f *testing.F) {
	path := filepath.Join(f.TempDir(), "keys")
	for _, s := range []string{
		"# keys\nsecret-of-a name=a requests=10 tokens=1000 parallel=2\n\nsecret-of-b name=b admin\n", "secret-of-a name=a\nsecret-of-a name=b", "secret-of-a requests=0", "secret-of-a name=", "",
		"secret-of-a name=a requests=1\nsecret-of-c name=a requests=2", "secret-of-a what",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := ReadKeys(path)
		if err != nil {
			if strings.Contains(err.Error(), "secret-of") {
				t.Errorf("%q: the error has a secret: %v", text, err)
			}
			return
		}
		for _, k := range keys {
			if k.Name == "" || len(k.Name) > 64 || k.Limits.Requests < 0 || k.Limits.Tokens < 0 || k.Limits.Parallel < 0 {
				t.Errorf("%q has the key %+v", text, k)
			}
		}
	})
}
