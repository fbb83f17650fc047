package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
)

// swapSpace is a program's pages in host memory.
type swapSpace struct {
	device backend.Swapper
	pages  []backend.Buffer // of each of the graph's caches
	moves  []backend.Move   // used again
}

// allocSwap gets Limits.SwapPages pages of host memory.
func (p *Program) allocSwap() error {
	if p.Limits.SwapPages == 0 {
		return nil
	}
	device, ok := p.dev.(backend.Swapper)
	if !ok {
		return fmt.Errorf("compile: device %s cannot move pages of its cache to host memory; leave out the swap space", p.dev.Info().Name)
	}
	p.swap.device = device
	for _, c := range p.Graph.Caches {
		n := int64(p.Limits.SwapPages) * p.Limits.PageBytes(c)
		b, err := device.AllocHost(n, "swap space of cache "+c.Name)
		if err != nil {
			return err
		}
		p.owned = append(p.owned, b)
		p.swap.pages = append(p.swap.pages, b)
		p.memory.Swap += n
	}
	return nil
}

// SwapOut copies pages of every cache to pages of host memory, from[i] to to[i], in order with the steps.
func (p *Program) SwapOut(from, to []int32) error {
	if err := p.swap.device.SwapOut(p.moves(from, to, false)); err != nil {
		return fmt.Errorf("compile: moving %d pages of the cache to host memory: %w", len(from), err)
	}
	return nil
}

// SwapIn copies pages of host memory to pages of every cache, from[i] to to[i], in order with the steps.
func (p *Program) SwapIn(from, to []int32) error {
	if err := p.swap.device.SwapIn(p.moves(to, from, true)); err != nil {
		return fmt.Errorf("compile: moving %d pages of the cache back from host memory: %w", len(from), err)
	}
	return nil
}

// moves lists the copies between pages of the device and of the host, cache by cache.
func (p *Program) moves(device, host []int32, in bool) []backend.Move {
	moves := p.swap.moves[:0]
	for i, c := range p.Graph.Caches {
		n := p.Limits.PageBytes(c)
		for j := range device {
			m := backend.Move{
				Dst: p.swap.pages[i].Slice(int64(host[j])*n, n),
				Src: p.pages[c].Slice(int64(device[j])*n, n),
			}
			if in {
				m.Dst, m.Src = m.Src, m.Dst
			}
			moves = append(moves, m)
		}
	}
	p.swap.moves = moves
	return moves
}

// PageBytes is what one page takes in all caches.
func (p *Program) PageBytes() (n int64) {
	for _, c := range p.Graph.Caches {
		n += p.Limits.PageBytes(c)
	}
	return n
}
