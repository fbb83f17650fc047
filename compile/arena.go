package compile

import (
	"sort"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// align is the least distance of values in the arena, in bytes: a cache line on CPUs, and what vector loads and bulk
// copies of GPUs ask for. The arena ends at a multiple of it as well: what lies behind a value up to there may be read.
const align = 256

// linger is for how many nodes longer a place is not given to another value: launches near one another then touch the same
// memory only where one needs what the other made, and a device may run them side by side, or join them: attention that also
// normalises and turns reads queries made five nodes before what it makes.
const linger = 5

// span is a place in the arena, in bytes.
type span struct{ off, size int64 }

// layout says where everything lies in the arena.
type layout struct {
	values  map[*graph.Value]span
	scratch []span // of each node
	size    int64
}

// arrange gives every matrix a place for as long as it is needed, first fit in the order in which they are made; two
// values that live at the same time never overlap.
func arrange(g *graph.Graph, lim backend.Limits, scratch []int64) layout {
	last := map[*graph.Value]int{}
	for i, n := range g.Nodes {
		for _, v := range n.In {
			last[v] = i
		}
	}
	last[g.Output] = len(g.Nodes)
	last[g.Hidden] = len(g.Nodes)
	l := layout{values: map[*graph.Value]span{}, scratch: make([]span, len(g.Nodes))}
	var live []tenant
	for i, n := range g.Nodes {
		kept := live[:0]
		for _, t := range live {
			if t.until >= i {
				kept = append(kept, t)
			}
		}
		live = kept
		for _, v := range n.Out {
			if v.Cache != nil {
				continue
			}
			size := int64(lim.Rows(v.Rows)) * v.RowBytes()
			s := fit(live, size)
			live = append(live, tenant{s, max(last[v], i) + linger})
			l.values[v] = s
			l.size = max(l.size, s.off+s.size)
		}
		if scratch[i] > 0 {
			l.scratch[i] = fit(live, scratch[i])
			live = append(live, tenant{l.scratch[i], i + linger})
			l.size = max(l.size, l.scratch[i].off+l.scratch[i].size)
		}
	}
	l.size = aligned(l.size)
	return l
}

func aligned(n int64) int64 { return (n + align - 1) / align * align }

// tenant is a span that is taken up to and including node until.
type tenant struct {
	span
	until int
}

// fit is the lowest free span of this size.
func fit(live []tenant, size int64) span {
	sorted := append([]tenant(nil), live...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].off < sorted[j].off })
	var at int64
	for _, t := range sorted {
		if at+size <= t.off {
			break
		}
		at = max(at, aligned(t.off+t.size))
	}
	return span{at, size}
}
