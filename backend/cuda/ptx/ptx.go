// Package ptx holds the kernels' compiled form: PTX text, checked in compressed, which the NVIDIA driver assembles for the
// GPU at hand. kernels/<name>/<name>.cu is compiled twice, for sm_80 (runs on Ampere and everything newer) and for sm_90a (Hopper's
// own instructions). "go generate ./backend/cuda/ptx" rebuilds it all; a test holds text and source together.
package ptx

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

//go:generate go run ./build

//go:embed *.ptx.gz
var files embed.FS

// Find returns the PTX of a kernel folder for a GPU of this compute capability (90 for 9.0).
func Find(name string, arch int) ([]byte, error) {
	target := "sm_80"
	switch {
	case arch == 90:
		target = "sm_90a"
	case arch < 80:
		return nil, fmt.Errorf("cuda: the kernels need a GPU of compute capability 8.0 or newer (Ampere), not %d.%d", arch/10, arch%10)
	}
	text, err := read(name + "." + target + ".ptx.gz")
	if err != nil {
		return nil, fmt.Errorf("cuda: reading the kernel folder %s for %s: %w", name, target, err)
	}
	return text, nil
}

// read expands one file.
func read(name string) ([]byte, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(text)
}
