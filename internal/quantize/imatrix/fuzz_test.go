package imatrix

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead: any file is refused, or it has as many means as sums, none of them below 0.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "imatrix.gguf")
	for _, name := range []string{path, filepath.Join(f.TempDir(), "imatrix.dat")} {
		if err := example().Write(name); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := Read(path)
		if err != nil {
			return
		}
		for name, e := range m.Entries {
			means := e.Means()
			if len(means) != len(e.Squares) {
				t.Errorf("%q has %d sums and %d means", name, len(e.Squares), len(means))
			}
			for _, v := range means {
				if !(v >= 0) {
					t.Errorf("a mean of %q is %g", name, v)
				}
			}
		}
	})
}
