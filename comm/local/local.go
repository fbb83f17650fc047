// Package local is communication within a process: ranks are goroutines, and what they exchange is memory that all of them see.
package local

import (
	"fmt"
	"sync"
)

// group is what the ranks of a communicator share.
type group struct {
	mu      sync.Mutex
	changed sync.Cond
	arrived int   // ranks at the barrier
	round   int   // how often all have arrived
	err     error // of Abort
	failed  chan struct{}
	given   [][]float32 // by each rank in this round
	sum     []float32
	links   [][]chan message // [from][to]
}

// message is numbers to be copied; done says that they were, or why not.
type message struct {
	x    []float32
	done chan error
}

// Rank implements comm.Communicator.
type Rank struct {
	*group
	number int
	done   chan error // of its Send
}

// New is a group of n ranks.
func New(n int) []*Rank {
	g := &group{given: make([][]float32, n), links: make([][]chan message, n), failed: make(chan struct{})}
	g.changed.L = &g.mu
	all := make([]*Rank, n)
	for i := range all {
		all[i] = &Rank{g, i, make(chan error, 1)}
		for range n {
			g.links[i] = append(g.links[i], make(chan message))
		}
	}
	return all
}

// Rank implements comm.Communicator.
func (r *Rank) Rank() int { return r.number }

// Size implements comm.Communicator.
func (r *Rank) Size() int { return len(r.given) }

// Abort implements comm.Communicator.
func (g *group) Abort(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		close(g.failed)
		g.changed.Broadcast()
	}
}

// Reset makes the group whole again after an Abort. No rank may be in a call.
func (g *group) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		g.err, g.arrived, g.failed = nil, 0, make(chan struct{})
	}
}

// barrier waits until all ranks have come to it. The last one does first, if it is not nil, before any goes on.
func (g *group) barrier(first func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	round := g.round
	if g.arrived++; g.arrived < len(g.given) {
		for g.round == round && g.err == nil {
			g.changed.Wait()
		}
		return g.err
	}
	if first != nil {
		if g.err = first(); g.err != nil {
			close(g.failed)
		}
	}
	g.arrived, g.round = 0, g.round+1
	g.changed.Broadcast()
	return g.err
}

// sameLengths checks what the ranks have given.
func (g *group) sameLengths() error {
	for i, x := range g.given {
		if len(x) != len(g.given[0]) {
			return fmt.Errorf("comm: rank %d gives %d numbers to a collective and rank 0 gives %d", i, len(x), len(g.given[0]))
		}
	}
	return nil
}

// AllReduce implements comm.Communicator: each rank sums a part of the numbers for all.
func (r *Rank) AllReduce(x []float32) error {
	r.given[r.number] = x
	err := r.barrier(func() error {
		if cap(r.sum) < len(x) {
			r.sum = make([]float32, len(x))
		}
		r.sum = r.sum[:len(x)]
		return r.sameLengths()
	})
	if err != nil {
		return err
	}
	low, high := len(x)*r.number/r.Size(), len(x)*(r.number+1)/r.Size()
	part := r.sum[low:high]
	copy(part, r.given[0][low:high])
	for _, other := range r.given[1:] {
		for i, v := range other[low:high] {
			part[i] += v
		}
	}
	if err := r.barrier(nil); err != nil {
		return err
	}
	copy(x, r.sum)
	return r.barrier(nil) // before the next collective writes to the sum
}

// AllGather implements comm.Communicator.
func (r *Rank) AllGather(dst, src []float32) error {
	if len(dst) != r.Size()*len(src) {
		return fmt.Errorf("comm: %d ranks gather %d numbers each into room for %d", r.Size(), len(src), len(dst))
	}
	r.given[r.number] = src
	if err := r.barrier(r.sameLengths); err != nil {
		return err
	}
	for i, x := range r.given {
		copy(dst[i*len(src):], x)
	}
	return r.barrier(nil) // before the ranks write to what they gave
}

// Send implements comm.Communicator.
func (r *Rank) Send(to int, x []float32) error {
	select {
	case r.links[r.number][to] <- message{x, r.done}:
	case <-r.failed:
		return r.err
	}
	return <-r.done
}

// Recv implements comm.Communicator.
func (r *Rank) Recv(from int, x []float32) error {
	select {
	case m := <-r.links[from][r.number]:
		var err error
		if len(m.x) != len(x) {
			err = fmt.Errorf("comm: rank %d sends %d numbers and rank %d wants %d", from, len(m.x), r.number, len(x))
		}
		copy(x, m.x)
		m.done <- err
		return err
	case <-r.failed:
		return r.err
	}
}
