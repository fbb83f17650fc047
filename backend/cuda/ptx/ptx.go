// Package ptx holds the kernels' compiled form: PTX text, which the NVIDIA driver assembles for the GPU at hand. Each kernels/…/NAME.cu is compiled
// twice, for sm_80 (runs on Ampere and everything newer) and for sm_90a (Hopper's own instructions). All of it is one compressed archive,
// kernels.ptx.zst; kernels.txt says what sources it was made from. "make ptx" rebuilds what is stale; a test says what that is.
package ptx

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"weak"

	"github.com/ridge-llm/ridge/backend/cuda/ptx/archive"
)

//go:generate go run ./build

//go:embed kernels.ptx.zst
var packed []byte

// Texts is the PTX of all modules for one target, by the path of their source below kernels, without .cu.
type Texts struct {
	all    *[]archive.Entry // of all targets
	target string
}

// expanded is the archive's entries as long as a Texts refers to them: devices that are opened side by side, as by several models of a process, share
// one copy, and none stays once kernels are loaded.
var expanded struct {
	mu  sync.Mutex
	all weak.Pointer[[]archive.Entry]
}

// entries expands the archive, unless another device has.
func entries() (*[]archive.Entry, error) {
	expanded.mu.Lock()
	defer expanded.mu.Unlock()
	if all := expanded.all.Value(); all != nil {
		return all, nil
	}
	all, err := archive.Unpack(packed)
	if err != nil {
		return nil, err
	}
	expanded.all = weak.Make(&all)
	return &all, nil
}

// Open expands the archive, some 50 MB, in 30 to 50 ms, and gives what is for a GPU of this compute capability (90 for 9.0).
func Open(arch int) (Texts, error) {
	target := "sm_80"
	switch {
	case arch == 90:
		target = "sm_90a"
	case arch < 80:
		return Texts{}, fmt.Errorf("cuda: the kernels need a GPU of compute capability 8.0 or newer (Ampere), not %d.%d", arch/10, arch%10)
	}
	all, err := entries()
	if err != nil {
		return Texts{}, fmt.Errorf("cuda: expanding the kernels' PTX: %w", err)
	}
	return Texts{all, target}, nil
}

// ErrMissing is that the archive has no PTX of a module or kernel: its source is newer than the archive.
var ErrMissing = errors.New("run make ptx and build the program again")

// Module is the PTX of a module.
func (t Texts) Module(name string) ([]byte, error) {
	if t.all != nil {
		for _, e := range *t.all {
			if e.Target == t.target && e.Module == name {
				return e.Text, nil
			}
		}
	}
	return nil, fmt.Errorf("cuda: the program has no PTX of the module %s (backend/cuda/kernels/%s.cu); %w", name, name, ErrMissing)
}
