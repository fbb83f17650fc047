//go:build !linux || nocuda || !(amd64 || arm64)

package mpi

import "fmt"

func (*Library) load() error {
	return fmt.Errorf("%w: this build of Ridge cannot load libraries", ErrMissing)
}

func syscall(uintptr, ...uintptr) int32 { return -1 }
