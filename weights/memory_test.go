package weights

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	writeGGUF(t, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenBytes("memory", data)
	if err != nil {
		t.Fatal(err)
	}
	if x, err := s.Tensor("experts"); err != nil || x.Rows != 6 || x.Cols != 64 || s.Metadata["general.name"] != "tiny" {
		t.Errorf("%+v, %v", x, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenBytes("memory", data[:9]); err == nil || !strings.HasPrefix(err.Error(), "gguf: memory: ") {
		t.Errorf("a truncated file gives %v", err)
	}
}
