//go:build linux && !nocuda && (amd64 || arm64)

package nccl

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// load opens libnccl.so.2 and looks up every call. A call the library lacks stays 0.
func load(fn *[numCalls]uintptr) error {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen("libnccl.so.2", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	for c := range fn {
		if p, err := purego.Dlsym(lib, symbols[c]); err == nil {
			fn[c] = p
		}
	}
	return nil
}

// syscall calls a C function that returns an int, an ncclResult_t.
//
//go:uintptrescapes
func syscall(fn uintptr, args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(fn, args...)
	return int32(r)
}

// text is a string that a function of the library returns.
func text(fn, arg uintptr) string {
	r, _, _ := purego.SyscallN(fn, arg)
	if r == 0 {
		return ""
	}
	p := *(**byte)(unsafe.Pointer(&r)) // memory of the library's, which no collector moves
	var b []byte
	for ; *p != 0 && len(b) < mostText; p = (*byte)(unsafe.Add(unsafe.Pointer(p), 1)) {
		b = append(b, *p)
	}
	return string(b)
}
