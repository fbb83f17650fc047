// Package nccl is NVIDIA's collective communication library, reached by dlopen: for what GPUs exchange that do not
// reach each other's memory.
//
// Source: NCCL, https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html.
package nccl

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
)

// ID is what the ranks of a group have in common: one of them makes it.
type ID [128]byte

// Type is the type of numbers that are exchanged.
type Type int

// Types, as nccl.h counts them.
const (
	Bytes Type = 1
	F32   Type = 7
	BF16  Type = 9
)

const sum = 0 // of ncclRedOp_t

// NewID makes what the ranks of a new group have in common.
func (l *Library) NewID() (id ID, err error) {
	to := new(ID)
	err = l.call("making the number of a group", getUniqueID, uintptr(unsafe.Pointer(to)))
	return *to, err
}

// Comm is a rank's end of a group.
type Comm struct {
	library *Library
	handle  uintptr
}

// Join makes a rank's end of a group. All ranks must call it; the GPU's context is current.
func (l *Library) Join(id ID, rank, ranks int) (*Comm, error) {
	to, by := new(uintptr), new([16]uintptr)
	*by = *(*[16]uintptr)(unsafe.Pointer(&id))
	doing := fmt.Sprintf("joining %d ranks as number %d", ranks, rank)
	var err error
	// The number is passed by value: on amd64 on the stack, behind the six words that go in registers; on arm64 by the address of a copy.
	if runtime.GOARCH == "amd64" {
		b := by
		err = l.call(doing, commInitRank, uintptr(unsafe.Pointer(to)), uintptr(ranks), uintptr(rank), 0, 0, 0,
			b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15])
	} else {
		err = l.call(doing, commInitRank, uintptr(unsafe.Pointer(to)), uintptr(ranks), uintptr(unsafe.Pointer(by)), uintptr(rank))
	}
	return &Comm{l, *to}, err
}

// AllReduce puts the sum of n numbers of all ranks' x in y, on the stream.
func (c *Comm) AllReduce(s *driver.Stream, x, y driver.Ptr, n int64, t Type) error {
	return c.library.call("an all-reduce", allReduce, uintptr(x), uintptr(y), uintptr(n), uintptr(t), sum, c.handle, s.Handle())
}

// AllGather puts n numbers of every rank's x in y, one rank behind the other.
func (c *Comm) AllGather(s *driver.Stream, x, y driver.Ptr, n int64, t Type) error {
	return c.library.call("an all-gather", allGather, uintptr(x), uintptr(y), uintptr(n), uintptr(t), c.handle, s.Handle())
}

// Send sends n bytes at x to a rank.
func (c *Comm) Send(s *driver.Stream, to int, x driver.Ptr, n int64) error {
	return c.library.call("sending", send, uintptr(x), uintptr(n), uintptr(Bytes), uintptr(to), c.handle, s.Handle())
}

// Recv receives n bytes to y from a rank.
func (c *Comm) Recv(s *driver.Stream, from int, y driver.Ptr, n int64) error {
	return c.library.call("receiving", recv, uintptr(y), uintptr(n), uintptr(Bytes), uintptr(from), c.handle, s.Handle())
}

// Abort ends what is under way. Nothing may be asked of the group afterwards, not even to be closed.
func (c *Comm) Abort() error { return c.library.call("ending a group", commAbort, c.handle) }

// Close leaves the group, when all work on the stream is done.
func (c *Comm) Close() error { return c.library.call("leaving a group", commDestroy, c.handle) }
