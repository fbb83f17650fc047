package compile

import (
	"math"
	"slices"
	"sort"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// align is the least distance of values in the arena, in bytes: a cache line on CPUs, and what vector loads and bulk
// copies of GPUs ask for. The arena ends at a multiple of it as well: what lies behind a value up to there may be read.
const align = 256

// livenessSlack is for how many operations after a value's last use its memory is not reused: launches near one another then
// access the same memory only where one reads what the other wrote, and a device may run them concurrently.
const livenessSlack = 5

// span is a range of the arena, in bytes.
type span struct{ off, size int64 }

// layout is the offsets of everything in the arena.
type layout struct {
	values  map[*graph.Value]span
	scratch []span // of each node
	size    int64
	results []*graph.Value // see results
}

// results is what of a graph is looked at from outside, or given from there: its inputs, then its outputs. Graphs of one model have as many.
func results(g *graph.Graph) []*graph.Value {
	return slices.Concat(g.Inputs, []*graph.Value{g.Output, g.Hidden}, g.Kept)
}

// resultsAs is where the results of another graph of the model are to lie: where those of this layout's do.
func (l *layout) resultsAs(g *graph.Graph) map[*graph.Value]span {
	at := map[*graph.Value]span{}
	for i, v := range results(g) {
		if v != nil {
			at[v] = l.values[l.results[i]]
		}
	}
	return at
}

// arrange assigns every value a span of the arena for its live range, first fit in the order of the nodes that write them; two
// values that are live at the same time never overlap, nor do a node's inputs, outputs and scratch: a kernel may write
// results before it has read all inputs. Fixed values lie where they are said to, and others out of their way.
func arrange(g *graph.Graph, lim backend.Limits, scratch []int64, fixed map[*graph.Value]span) layout {
	first, ends := positions(g)
	last := map[*graph.Value]int{}
	for i, n := range g.Nodes {
		for _, v := range n.In {
			last[v] = ends[i]
		}
	}
	last[g.Output] = math.MaxInt - livenessSlack
	last[g.Hidden] = math.MaxInt - livenessSlack
	for _, v := range g.Kept {
		last[v] = math.MaxInt - livenessSlack
	}
	over := overwrites(g)
	for i := len(g.Nodes) - 1; i >= 0; i-- { // what takes a value's memory keeps it in use
		for _, v := range g.Nodes[i].Out {
			if from := over[v]; from != nil {
				last[from] = max(last[from], last[v], ends[i])
			}
		}
	}
	l := layout{values: map[*graph.Value]span{}, scratch: make([]span, len(g.Nodes))}
	var live []liveRange
	made := map[*graph.Value]int{} // when
	for i, n := range g.Nodes {
		for _, v := range n.Out {
			made[v] = first[i]
		}
	}
	place := func(v *graph.Value, size int64, until int) span { // v is nil for scratch
		if s, ok := fixed[v]; ok {
			return s
		}
		taken := live
		for f, s := range fixed {
			if until >= made[f] {
				taken = append(taken[:len(taken):len(taken)], liveRange{s, math.MaxInt})
			}
		}
		return fit(taken, size)
	}
	for _, v := range g.Inputs { // they may be given while the step before is looked at
		s := place(v, int64(lim.Rows(v.Rows))*v.RowBytes(), math.MaxInt)
		live = append(live, liveRange{s, math.MaxInt})
		l.values[v] = s
		l.size = max(l.size, s.off+s.size)
	}
	for i, n := range g.Nodes {
		kept := live[:0]
		for _, t := range live {
			if t.until >= first[i] {
				kept = append(kept, t)
			}
		}
		live = kept
		for _, v := range n.Out {
			if v.Cache != nil {
				continue
			}
			if from := over[v]; from != nil {
				l.values[v] = l.values[from]
				continue
			}
			size, until := int64(lim.Rows(v.Rows))*v.RowBytes(), max(last[v], ends[i])+livenessSlack
			s := place(v, size, until)
			live = append(live, liveRange{s, until})
			l.values[v] = s
			l.size = max(l.size, s.off+s.size)
		}
		if scratch[i] > 0 {
			l.scratch[i] = place(nil, scratch[i], ends[i]+livenessSlack)
			live = append(live, liveRange{l.scratch[i], ends[i] + livenessSlack})
			l.size = max(l.size, l.scratch[i].off+l.scratch[i].size)
		}
	}
	l.size = aligned(l.size)
	return l
}

// overwrites is, for each value that takes the memory of another, that one.
func overwrites(g *graph.Graph) map[*graph.Value]*graph.Value {
	over := map[*graph.Value]*graph.Value{}
	for _, n := range g.Nodes {
		if o, ok := n.Op.(graph.InPlace); ok {
			for i, v := range n.Out {
				over[v] = n.In[o.Overwrites(i)]
			}
		}
	}
	return over
}

// positions is the numbers of the first and of the last operation of each node, over all operations of the graph.
func positions(g *graph.Graph) (first, last []int) {
	at := 0
	for _, n := range g.Nodes {
		parts := len(graph.Parts(n))
		first, last = append(first, at), append(last, at+parts-1)
		at += parts
	}
	return first, last
}

func aligned(n int64) int64 { return (n + align - 1) / align * align }

// liveRange is a span that is in use up to and including operation until.
type liveRange struct {
	span
	until int
}

// fit is the lowest free span of this size.
func fit(live []liveRange, size int64) span {
	sorted := append([]liveRange(nil), live...)
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
