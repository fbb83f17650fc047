package mpi

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Rank is this process's end of a group. It implements comm.Communicator.
type Rank struct {
	library *Library
	comm    handle
	number  int
	names   []int     // of the group's ranks in the world
	out     []*buffer // to each rank, under way or free
	in      []*buffer
	mu      sync.Mutex
	err     error // of Abort
	got     [][]float32
}

// transfers are the messages of a call.
type transfers struct {
	*Rank
	kind     uint32
	requests []*request
}

// buffer is a message in memory that MPI reads or writes: its head, then numbers. It is Go's, which does not move it, and stays with the Rank: a call that was aborted leaves
// MPI at work on it.
type buffer struct{ bytes []byte }

// request is a message under way.
type request struct {
	handle uintptr // MPI writes one of 32 or 64 bits here
	with   int     // the other rank, of the group
	to     []float32
	buffer *buffer // nil: it is sent
}

const (
	headBytes = 16
	mostBytes = 1<<31 - 1 // of a message: MPI counts in an int
	groupTag  = 1
	tag       = 0

	spinFor  = 200 * time.Microsecond // before waiting with pauses
	pauseFor = 50 * time.Microsecond
)

// Kinds of messages, for ranks that do not make the same calls.
const (
	allReduce = 1 + iota
	allGather
	message
)

var kinds = [...]string{allReduce: "an all-reduce", allGather: "an all-gather", message: "a message"}

// Group is this process's end of a group of processes of the world, of which it is number. All of them call it, each for its groups in the same order.
func (l *Library) Group(ranks []int, number int) (*Rank, error) {
	numbers, all, some, group := make([]int32, len(ranks)), new(uintptr), new(uintptr), new(uintptr)
	for i, r := range ranks {
		numbers[i] = int32(r)
	}
	const doing = "making a group"
	if err := l.call(doing, commGroup, l.abi.world, uintptr(unsafe.Pointer(all))); err != nil {
		return nil, err
	}
	if err := l.call(doing, groupIncl, *all, uintptr(len(ranks)), uintptr(unsafe.Pointer(&numbers[0])), uintptr(unsafe.Pointer(some))); err != nil {
		return nil, err
	}
	if err := l.call(doing, commCreateGroup, l.abi.world, *some, groupTag, uintptr(unsafe.Pointer(group))); err != nil {
		return nil, err
	}
	r := &Rank{library: l, comm: *group, number: number, names: ranks, got: make([][]float32, len(ranks))}
	for range ranks {
		r.out, r.in = append(r.out, &buffer{}), append(r.in, &buffer{})
	}
	return r, l.call("setting how errors are reported", commSetErrhandler, r.comm, l.abi.errorsReturn)
}

// Rank implements comm.Communicator.
func (r *Rank) Rank() int { return r.number }

// Size implements comm.Communicator.
func (r *Rank) Size() int { return len(r.names) }

// Abort implements comm.Communicator. Other ranks hear of it from whoever has made the group.
func (r *Rank) Abort(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *Rank) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close leaves the group. The memory goes with MPI.
func (*Rank) Close() error { return nil }

// room is the buffer's memory for n numbers.
func (b *buffer) room(n int) ([]byte, error) {
	bytes := headBytes + 4*n
	if bytes > mostBytes {
		return nil, fmt.Errorf("comm: %d numbers in a message of MPI; %d are the most", n, (mostBytes-headBytes)/4)
	}
	if len(b.bytes) < bytes {
		b.bytes = make([]byte, bytes)
	}
	return b.bytes[:bytes], nil
}

// numbers is those of a message.
func numbers(message []byte) []float32 {
	if len(message) == headBytes {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&message[headBytes])), (len(message)-headBytes)/4)
}

// send begins to send x to a rank.
func (r *transfers) send(to int, x []float32) error {
	m, err := r.out[to].room(len(x))
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(m, uint64(r.kind))
	binary.NativeEndian.PutUint64(m[8:], uint64(len(x)))
	copy(numbers(m), x)
	q := &request{with: to}
	r.requests = append(r.requests, q)
	return r.library.call("sending", isend, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), r.library.abi.bytes, uintptr(to), tag, r.comm, uintptr(unsafe.Pointer(&q.handle)))
}

// receive begins to receive x from a rank.
func (r *transfers) receive(from int, x []float32) error {
	m, err := r.in[from].room(len(x))
	if err != nil {
		return err
	}
	q := &request{with: from, to: x, buffer: r.in[from]}
	r.requests = append(r.requests, q)
	return r.library.call("receiving", irecv, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), r.library.abi.bytes, uintptr(from), tag, r.comm, uintptr(unsafe.Pointer(&q.handle)))
}

// wait waits for all messages under way. begun is the error of the last that was begun.
func (r *transfers) wait(begun error) error {
	err := begun
	for start := time.Now(); err == nil && len(r.requests) > 0; {
		var left []*request
		for _, q := range r.requests {
			done := new(int32)
			if err = r.library.call("waiting for a message", test, uintptr(unsafe.Pointer(&q.handle)), uintptr(unsafe.Pointer(done)), r.library.abi.statusIgnore); err != nil {
				err = fmt.Errorf("comm: rank %d: %w", r.names[q.with], err)
				break
			}
			if *done == 0 {
				left = append(left, q)
			} else if err = r.arrived(q); err != nil {
				break
			}
		}
		if r.requests = left; err != nil || len(left) == 0 {
			break
		}
		if err = r.failure(); time.Since(start) > spinFor {
			time.Sleep(pauseFor)
		} else {
			runtime.Gosched()
		}
	}
	if err != nil {
		r.Abort(err)
		return r.failure()
	}
	return nil
}

// arrived takes the numbers of a message that was received.
func (r *transfers) arrived(q *request) error {
	if q.buffer == nil {
		return nil
	}
	m := q.buffer.bytes[:headBytes+4*len(q.to)]
	kind, n := binary.NativeEndian.Uint64(m), binary.NativeEndian.Uint64(m[8:])
	if kind != uint64(r.kind) {
		what := "nothing that is known"
		if kind > 0 && kind < uint64(len(kinds)) {
			what = kinds[kind]
		}
		return fmt.Errorf("comm: rank %d is in %s and this one in %s", r.names[q.with], what, kinds[r.kind])
	}
	if n != uint64(len(q.to)) {
		return fmt.Errorf("comm: rank %d gives %d numbers to %s and this one %d", r.names[q.with], n, kinds[r.kind], len(q.to))
	}
	copy(q.to, numbers(m))
	return nil
}
