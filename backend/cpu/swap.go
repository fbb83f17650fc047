package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/hostmem"
)

// The CPU device's memory is host memory. Swapping pages out and in frees a sequence's part of the KV cache for another
// without recomputation, but so would a larger cache: swap space is for comparisons and tests.

// AllocHost implements backend.Swapper.
func (d *Device) AllocHost(n int64, what string) (backend.Buffer, error) { return d.Alloc(n, what) }

var _ backend.HostSharer = (*Device)(nil)

// AllocSharedHost implements backend.HostSharer.
func (d *Device) AllocSharedHost(n int64, what string) (backend.Buffer, error) {
	data, err := hostmem.Alloc(n)
	if err != nil {
		return d.AllocHost(n, what)
	}
	return backend.Buffer{Mem: &memory{bytes: data, shared: true}, Len: n}, nil
}

// SwapOut implements backend.Swapper.
func (d *Device) SwapOut(moves []backend.Move) error {
	d.move(moves)
	return nil
}

// SwapIn implements backend.Swapper.
func (d *Device) SwapIn(moves []backend.Move) error {
	d.move(moves)
	return nil
}

// HostBytes implements backend.Swapper.
func (d *Device) HostBytes(b backend.Buffer) []byte { return raw(b) }

// Swaps implements backend.Swapper: copies are done when they are given.
func (d *Device) Swaps() int { return 0 }

// SwapsDone implements backend.Swapper.
func (d *Device) SwapsDone() (int, error) { return 0, nil }

// move makes the copies, each thread its part of them.
func (d *Device) move(moves []backend.Move) {
	d.RunThreads(func(thread int) {
		n := d.pool.N()
		for _, m := range moves[len(moves)*thread/n : len(moves)*(thread+1)/n] {
			copy(raw(m.Dst), raw(m.Src))
		}
	})
}

// HeadStretches implements backend.HeadedPages: blocks of tokens, or groups of them in four bits.
func (d *Device) HeadStretches(c *graph.Cache, pageSize int) []int64 {
	all := make([]int64, pageSize/graph.PageTokens(c.Type))
	for i := range all {
		all[i] = c.PageBytes(pageSize) / int64(len(all)*c.K.Count)
	}
	return all
}
