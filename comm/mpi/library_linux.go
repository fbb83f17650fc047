//go:build linux && !nocuda && (amd64 || arm64)

package mpi

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// load opens the library and looks up its calls. One that it lacks stays 0.
func (l *Library) load() error {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	var failed []error
	for _, name := range files() {
		// Open MPI's plugins look for its symbols among the global ones.
		lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		symbol := func(name string) uintptr {
			p, err := purego.Dlsym(lib, name)
			if err != nil {
				return 0
			}
			return p
		}
		if l.abi = mpich; symbol("ompi_mpi_comm_world") != 0 {
			l.abi = openMPI(symbol)
		}
		for c := range l.fn {
			l.fn[c] = symbol(symbols[c])
		}
		return nil
	}
	return fmt.Errorf("%w: %w", ErrMissing, errors.Join(failed...))
}

// syscall calls a C function that returns an int.
//
//go:uintptrescapes
func syscall(fn uintptr, args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(fn, args...)
	return int32(r)
}
