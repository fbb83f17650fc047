//go:build linux && !nocuda && (amd64 || arm64)

package driver

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// loadLibrary opens libcuda.so.1 and looks up every call. A call the library lacks stays 0.
func loadLibrary(fn *[numCalls]uintptr) error {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return fmt.Errorf("cuda: no NVIDIA driver found (%w); install driver 545 or newer, start a container with its GPU (docker run --gpus all), or take --backend cpu", err)
	}
	for c := range fn {
		if p, err := purego.Dlsym(lib, symbols[c]); err == nil {
			fn[c] = p
		}
	}
	return nil
}

// syscall calls a C function of up to 15 words and returns its int result, here a CUresult. It goes through SyscallN and
// never through purego's reflecting RegisterLibFunc: this is the hot path of every launch.
//
//go:uintptrescapes
func syscall(fn uintptr, args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(fn, args...)
	return int32(r)
}
