//go:build !linux || nocuda || !(amd64 || arm64)

package driver

import "errors"

func loadLibrary(*[numCalls]uintptr) error {
	return errors.New("cuda: this binary was built without CUDA (build it for linux on amd64 or arm64, without the tag nocuda)")
}

// syscall cannot be reached: without a library there is no Driver to call.
func syscall(uintptr, ...uintptr) int32 { panic("driver: a call without a library") }
