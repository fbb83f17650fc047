package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// swapSpace is a program's pages in host memory.
type swapSpace struct {
	device backend.Swapper
	pages  map[*graph.Cache]backend.Buffer
	moves  []backend.Move // used again
}

// allocSwap gets the pages of host memory that the limits ask for.
func (p *Program) allocSwap() error {
	if p.limits.SwapPages == 0 && p.limits.HostPages == 0 {
		return nil
	}
	device, ok := p.dev.(backend.Swapper)
	if !ok {
		return fmt.Errorf("compile: device %s cannot move pages of its cache to host memory; leave out the swap space", p.dev.Info().Name)
	}
	p.swap.device, p.swap.pages = device, map[*graph.Cache]backend.Buffer{}
	for _, c := range p.Graph.Caches {
		n := int64(p.limits.GroupSwapPages(c.Group)+p.limits.GroupHostPages(c.Group)) * p.limits.PageBytes(c)
		alloc := device.AllocHost
		if sharer, ok := p.dev.(backend.HostSharer); ok && p.limits.HostMapped {
			alloc = sharer.AllocSharedHost
		}
		b, err := alloc(n, "swap space of cache "+c.Name)
		if err != nil {
			return err
		}
		p.owned = append(p.owned, b)
		p.swap.pages[c] = b
		p.memory.Swap += n
	}
	return nil
}

// SwapOut copies pages of every cache of a group to pages of host memory, from[i] to to[i], in order with the steps.
func (p *Program) SwapOut(group int, from, to []int32) error {
	if err := p.swap.device.SwapOut(p.moves(group, from, to, false)); err != nil {
		return fmt.Errorf("compile: moving %d pages of the cache to host memory: %w", len(from), err)
	}
	return nil
}

// SwapIn copies pages of host memory to pages of every cache of a group, from[i] to to[i], in order with the steps.
func (p *Program) SwapIn(group int, from, to []int32) error {
	if err := p.swap.device.SwapIn(p.moves(group, to, from, true)); err != nil {
		return fmt.Errorf("compile: moving %d pages of the cache back from host memory: %w", len(from), err)
	}
	return nil
}

// moves lists the copies between pages of the device and of the host, cache by cache. Where devices have sequences of their own, those of this one.
func (p *Program) moves(group int, device, host []int32, in bool) []backend.Move {
	moves := p.swap.moves[:0]
	for _, c := range p.groups[group].Caches {
		n := p.limits.PageBytes(c)
		for j, at := range device {
			to := host[j]
			if !p.holds(group, &at) {
				continue
			}
			if p.seq != nil && p.seq.Own {
				to -= int32(p.seq.Rank * p.limits.GroupSwapPages(group))
			}
			m := backend.Move{Dst: p.swap.pages[c].Slice(int64(to)*n, n), Src: p.pages[c].Slice(int64(at)*n, n)}
			if in {
				m.Dst, m.Src = m.Src, m.Dst
			}
			moves = append(moves, m)
		}
	}
	p.swap.moves = moves
	return moves
}

// PageBytes is what one page takes in all caches of a group.
func (p *Program) PageBytes(group int) int64 {
	return p.groups[group].PageBytes(p.limits.PageSize)
}
