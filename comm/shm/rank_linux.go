package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
)

// Rank is one process's end of a group. It implements comm.Communicator.
type Rank struct {
	layout
	mem    []byte
	number int
	ops    vec.Ops
	at     uint32    // blocks that this rank has written in all collectives
	posted []*word   // by each rank: blocks written
	summed []*word   // likewise: blocks whose own part is the sum
	taken  []*word   // likewise: blocks of all ranks that it is done with
	links  [][]*link // [from][to], of this rank
	mu     sync.Mutex
	err    error // of Abort here
}

// link is the blocks from a rank to another.
type link struct {
	posted, taken *word
	at            uint32
}

// Open is rank number of so many in the memory that one of them made.
func Open(m Memory, number, ranks int) (*Rank, error) {
	if ranks < 1 || ranks > maxRanks || number < 0 || number >= ranks {
		return nil, fmt.Errorf("comm: rank %d of %d; up to %d ranks, counted from 0, are possible", number, ranks, maxRanks)
	}
	mem, err := mapped(m, ranks)
	if err != nil {
		return nil, err
	}
	r := &Rank{layout: layout{ranks}, mem: mem, number: number, ops: vec.For(gemm.Tiers()[0]), links: make([][]*link, ranks)}
	for i := range ranks {
		r.posted = append(r.posted, wordAt(mem, r.counter(i, 0)))
		r.summed = append(r.summed, wordAt(mem, r.counter(i, 1)))
		r.taken = append(r.taken, wordAt(mem, r.counter(i, 2)))
		for j := range ranks {
			r.links[i] = append(r.links[i], &link{posted: wordAt(mem, r.pair(i, j, 0)), taken: wordAt(mem, r.pair(i, j, 1))})
		}
	}
	return r, nil
}

// Close unmaps the memory. No call may be under way.
func (r *Rank) Close() error {
	if r.mem == nil {
		return nil
	}
	err := unix.Munmap(r.mem)
	r.mem = nil
	return err
}

// Rank implements comm.Communicator.
func (r *Rank) Rank() int { return r.number }

// Size implements comm.Communicator.
func (r *Rank) Size() int { return r.ranks }

func (r *Rank) aborted() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&r.mem[abortedAt])) }

// Abort implements comm.Communicator.
func (r *Rank) Abort(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	if r.aborted().CompareAndSwap(0, 1) {
		text := err.Error()
		text = text[:min(len(text), textMost)]
		binary.NativeEndian.PutUint32(r.mem[textAt:], uint32(len(text)))
		copy(r.mem[textAt+4:], text)
		r.aborted().Store(2)
	}
	for i := range r.ranks {
		for _, w := range []*word{r.posted[i], r.summed[i], r.taken[i]} {
			w.wake()
		}
		for _, l := range r.links[i] {
			l.posted.wake()
			l.taken.wake()
		}
	}
}

// failure is why calls end; nil while none has to.
func (r *Rank) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return r.err
	case r.aborted().Load() == 0:
		return nil
	case r.aborted().Load() == 2:
		n := min(int(binary.NativeEndian.Uint32(r.mem[textAt:])), textMost)
		r.err = errors.New(string(r.mem[textAt+4 : textAt+4+n]))
	default:
		return errors.New("comm: another rank has aborted")
	}
	return r.err
}

// await waits until a counter has come to n.
func (r *Rank) await(w *word, n uint32) error {
	if w.await(n, func() bool { return r.failure() != nil }) {
		return nil
	}
	return r.failure()
}

// call refuses calls of a group that was aborted.
func (r *Rank) call() error {
	if r.aborted().Load() != 0 {
		return r.failure()
	}
	return nil
}

// Kinds of collectives, for ranks that do not make the same calls.
const (
	allReduce = 1 + iota
	allGather
	message
)

var kinds = [...]string{allReduce: "an all-reduce", allGather: "an all-gather", message: "a message"}

// head writes what a block is of: a call of a kind over so many numbers.
func head(mem []byte, kind, n int) {
	binary.NativeEndian.PutUint32(mem, uint32(kind))
	binary.NativeEndian.PutUint64(mem[8:], uint64(n))
}

// same checks that a rank's block is of the call that this rank makes.
func same(mem []byte, rank, kind, n int) error {
	if k := binary.NativeEndian.Uint32(mem); k != uint32(kind) {
		what := "nothing that is known"
		if int(k) < len(kinds) && k > 0 {
			what = kinds[k]
		}
		return fmt.Errorf("comm: rank %d is in %s and this one in %s", rank, what, kinds[kind])
	}
	if m := binary.NativeEndian.Uint64(mem[8:]); m != uint64(n) {
		return fmt.Errorf("comm: rank %d gives %d numbers to %s and this one %d", rank, m, kinds[kind], n)
	}
	return nil
}
