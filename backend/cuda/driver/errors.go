package driver

import (
	"errors"
	"fmt"
	"unsafe"
)

// Codes of CUresult that callers distinguish.
const (
	codeOutOfMemory  = 2
	codeNoDevice     = 100
	codeBrokenMemory = 214 // ECC_UNCORRECTABLE: an error in the GPU's memory that could not be corrected
	codeNotReady     = 600

	// From here to codeLaunchFailed lie the faults of kernels: bad addresses, time-outs, traps, broken hardware.
	codeIllegalAddress = 700
	codeLaunchFailed   = 719
)

// Error is a driver call that failed.
type Error struct {
	Doing    string // what the caller was doing: "allocating 2.0 GiB of device memory"
	Call     string // the driver's function: "cuMemAlloc_v2"
	Code     int    // the CUresult
	Name     string // the code's name: "CUDA_ERROR_OUT_OF_MEMORY"
	Sentence string // the driver's own sentence: "out of memory"
	Log      string // the assembler's log, if it rejects a kernel
}

func (e *Error) Error() string {
	s := fmt.Sprintf("cuda: %s: %s (%s returned %s, code %d)", e.Doing, e.Sentence, e.Call, e.Name, e.Code)
	if e.Log != "" {
		s += "\n" + e.Log
	}
	return s
}

// IsOutOfMemory reports whether a call failed for lack of device or pinned memory.
func IsOutOfMemory(err error) bool { return hasCode(err, codeOutOfMemory) }

// IsFault reports whether a kernel, or the memory under it, has faulted. The context is lost: every later call on it fails the same way.
func IsFault(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code >= codeIllegalAddress && e.Code <= codeLaunchFailed || e.Code == codeBrokenMemory)
}

func hasCode(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func (d *Driver) newError(doing string, c call, code int32) *Error {
	return &Error{
		Doing: doing, Call: c.String(), Code: int(code),
		Name:     d.describe(cuGetErrorName, code, "an unnamed error"),
		Sentence: d.describe(cuGetErrorString, code, "the driver has no sentence for it"),
	}
}

func (d *Driver) describe(c call, code int32, otherwise string) string {
	text := new(*byte)
	if syscall(d.fn[c], uintptr(code), uintptr(unsafe.Pointer(text))) != 0 || *text == nil {
		return otherwise
	}
	return cString(*text)
}

// cString copies a NUL-terminated string of the driver's.
func cString(p *byte) string {
	var b []byte
	for ; *p != 0; p = (*byte)(unsafe.Add(unsafe.Pointer(p), 1)) {
		b = append(b, *p)
	}
	return string(b)
}
