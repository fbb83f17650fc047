package nccl

import (
	"errors"
	"fmt"
	"unsafe"
)

// call is a function of the library.
type call int

const (
	getUniqueID call = iota
	commInitRank
	commDestroy
	commAbort
	allReduce
	allGather
	send
	recv
	getErrorString
	getLastError
	getVersion
	numCalls
)

var symbols = [numCalls]string{
	getUniqueID: "ncclGetUniqueId", commInitRank: "ncclCommInitRank", commDestroy: "ncclCommDestroy", commAbort: "ncclCommAbort",
	allReduce: "ncclAllReduce", allGather: "ncclAllGather", send: "ncclSend", recv: "ncclRecv",
	getErrorString: "ncclGetErrorString", getLastError: "ncclGetLastError", getVersion: "ncclGetVersion",
}

// Library is the opened library.
type Library struct {
	fn      [numCalls]uintptr
	version int
}

// ErrMissing is in the error of Open when the library is not installed.
var ErrMissing = errors.New("nccl: libnccl.so.2 is not installed, or is not where the loader looks (LD_LIBRARY_PATH)")

// oldest is the first version whose messages and collectives can be captured in CUDA graphs: 2.11.
const oldest = 21100

// Open loads libnccl.so.2.
func Open() (*Library, error) {
	l := &Library{}
	if err := load(&l.fn); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	for c, fn := range l.fn {
		if fn == 0 {
			return nil, fmt.Errorf("nccl: libnccl.so.2 has no %s; install version 2.11 or newer", symbols[c])
		}
	}
	v := new(int32)
	if err := l.call("asking for the version", getVersion, uintptr(unsafe.Pointer(v))); err != nil {
		return nil, err
	}
	if l.version = int(*v); l.version < oldest {
		return nil, fmt.Errorf("nccl: version %s is too old; 2.11 or newer is needed", l.Version())
	}
	return l, nil
}

// Version is the library's, such as 2.27.3.
func (l *Library) Version() string {
	return fmt.Sprintf("%d.%d.%d", l.version/10000, l.version%10000/100, l.version%100)
}

// call runs a function and makes an error of its code.
//
//go:uintptrescapes
func (l *Library) call(doing string, c call, args ...uintptr) error {
	code := syscall(l.fn[c], args...)
	if code == 0 {
		return nil
	}
	what := text(l.fn[getErrorString], uintptr(code))
	if last := text(l.fn[getLastError], 0); last != "" {
		what += ": " + last
	}
	return fmt.Errorf("nccl: %s: %s (%s returned %d)", doing, what, symbols[c], code)
}

// mostText is the longest text that is read of the library's.
const mostText = 1024
