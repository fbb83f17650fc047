// Package ptx holds the kernels' compiled form: PTX text, which the NVIDIA driver assembles for the GPU at hand. Each kernels/…/NAME.cu is compiled
// twice, for sm_80 (runs on Ampere and everything newer) and for sm_90a (Hopper's own instructions). All of it is one compressed archive,
// kernels.ptx.zst; kernels.txt says what sources it was made from. "make ptx" rebuilds what is stale; a test says what that is.
package ptx

import (
	_ "embed"
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/ptx/archive"
)

//go:generate go run ./build

//go:embed kernels.ptx.zst
var packed []byte

// Texts is the PTX of all modules for one target, by the path of their source below kernels, without .cu.
type Texts map[string][]byte

// Open expands the archive, some 50 MB, in 30 to 50 ms, and gives what is for a GPU of this compute capability (90 for 9.0).
func Open(arch int) (Texts, error) {
	target := "sm_80"
	switch {
	case arch == 90:
		target = "sm_90a"
	case arch < 80:
		return nil, fmt.Errorf("cuda: the kernels need a GPU of compute capability 8.0 or newer (Ampere), not %d.%d", arch/10, arch%10)
	}
	all, err := archive.Unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("cuda: expanding the kernels' PTX: %w", err)
	}
	texts := Texts{}
	for _, e := range all {
		if e.Target == target {
			texts[e.Module] = e.Text
		}
	}
	return texts, nil
}

// Module is the PTX of a module.
func (t Texts) Module(name string) ([]byte, error) {
	text, ok := t[name]
	if !ok {
		return nil, fmt.Errorf("cuda: the program has no PTX of the module %s (backend/cuda/kernels/%s.cu); run make ptx and build it again", name, name)
	}
	return text, nil
}
