package price

import (
	"fmt"
	"math"
	"strings"

	"github.com/ridge-llm/ridge/graph"
)

// group is operations that cost the same in every step: the same op on the same shapes, as the layers of a model have them.
// The work of one of them is linear in the load, so that pricing a step takes a dozen sums however deep the model is.
type group struct {
	nodes  []*graph.Node // that they are, or are parts of: one for each operation
	class  Class
	number Number
	window int // index of its cache's window
	onRows graph.Rows
	heads  int64   // of attention's queries
	curve  *Curve  // of a product
	size   float64 // of its weight, as sizeOf
	skips  float64 // how many times as fast as a dense one it is at the peak rates: the device leaves out what the weight does not store
	coef   *Coef   // of everything else
	rides  bool    // with the operation before it, in one launch

	experts graph.MoE // of such a node; no experts otherwise
	held    int       // of them are here
	state   int64     // bytes of a sequence's state; 0: it has none
	all     float64   // bytes of those

	fixed, perToken, perLogit, perRow, perPair graph.Work

	wide    bool   // it computes with the rows of all devices that divide them
	queries *group // of attention over keys that devices divide: its work where queries go round
	rounds  int64  // of them: devices

	adapts                              bool // only what adapters ask for
	perAdapted, perRankRow, perRankByte graph.Work
	adapted                             func(adapterLoad) int64 // of experts: bytes of their adapters; nil: there are none
}

// groupsOf sorts what a graph's nodes compute into groups. Operations with different places in launches are not alike.
func groupsOf(g *graph.Graph, p *Profile, windows []window) ([]*group, error) {
	byKey := map[string]*group{}
	var all []*group
	for _, n := range g.Nodes {
		for _, o := range operationsOf(n) {
			key := o.key()
			if byKey[key] == nil {
				x, err := newGroup(o.Node, p, windows)
				if err != nil {
					return nil, err
				}
				if x.rides = o.rides; x.class == Linear {
					x.size = sizeOf(max(o.Node.Weights[0].Out.Len()*o.Node.Weights[0].In.Len(), o.numbers))
				}
				x.without(&o)
				byKey[key] = x
				all = append(all, x)
			}
			byKey[key].nodes = append(byKey[key].nodes, n)
		}
	}
	return all, nil
}

// without takes traffic out of the group's work that stays within a node.
func (x *group) without(o *operation) {
	of := func(v *graph.Value) *graph.Work {
		if x.adapts {
			return &x.perAdapted
		}
		if v.Rows == graph.Logits {
			return &x.perLogit
		}
		return &x.perToken
	}
	for _, v := range o.Unread {
		of(v).ValueRead -= v.RowBytes()
	}
	for _, v := range o.Unwritten {
		of(v).ValueWrite -= v.RowBytes()
	}
}

// keyOf is all of a node that its cost depends on.
func keyOf(n *graph.Node) string {
	var s strings.Builder
	fmt.Fprint(&s, n.Op.Name(), " ", n.Op.Attrs())
	value := func(v *graph.Value) {
		if c := v.Cache; c != nil {
			fmt.Fprint(&s, "; cache ", c.K, c.V, c.State, c.Type, c.Window)
			return
		}
		fmt.Fprint(&s, "; ", v.Rows, v.Axis, v.Type)
	}
	for _, v := range n.In {
		value(v)
	}
	s.WriteString(" to")
	for _, v := range n.Out {
		value(v)
	}
	for _, w := range n.Weights {
		fmt.Fprint(&s, "; ", w.Matrices(), "×", w.Out.Len(), "×", w.In.Len(), w.Format)
	}
	return s.String()
}

func newGroup(n *graph.Node, p *Profile, windows []window) (*group, error) {
	x := &group{class: classOf(n), number: numberOf(n, p), skips: 1, onRows: graph.Tokens, wide: n.Wide()}
	ring, rings := n.Op.(graph.RingAttention)
	if (x.class == Collective || rings) && p.Link == 0 {
		return nil, fmt.Errorf("price: profile %q has no link_bytes_per_second, which %s needs", p.Name, n.Op.Name())
	}
	if p.FLOPs[x.number] == 0 {
		return nil, fmt.Errorf("price: profile %q has no rate of %s arithmetic, in which node %s computes; give flops_per_second.%s", p.Name, x.number, n, x.number)
	}
	if len(n.Out) > 0 && n.Out[0].Cache == nil {
		x.onRows = n.Out[0].Rows
	}
	for i, w := range windows {
		for _, v := range n.In {
			if v.Cache != nil && windowOf(n, v.Cache) == w {
				x.window = i
			}
		}
	}
	switch x.class {
	case Linear:
		w := n.Weights[0]
		x.curve, x.size = p.Fit.curve(w.Format), sizeOf(w.Out.Len()*w.In.Len())
		x.skips = p.skips(x.number, w.Format)
	case Collective:
	case Attention:
		x.coef, x.heads = &p.Fit.Attention, int64(n.In[0].Axis.Count)
		if rings {
			x.rounds, x.queries = int64(ring.Ranks), &group{}
			x.queries.probe(n, func(n *graph.Node, s *graph.Step) graph.Work { return n.Op.(graph.RingAttention).PassQueries(n, s) })
			x.queries.window = x.window
			x.probe(n, func(n *graph.Node, s *graph.Step) graph.Work { return n.Op.(graph.RingAttention).PassKeys(n, s) })
			return x, nil
		}
	default:
		x.coef = p.Fit.coef(n.Op.Name())
	}
	x.probe(n, func(n *graph.Node, s *graph.Step) graph.Work { return n.Op.Work(n, s) })
	x.probeAdapters(n)
	return x, nil
}

// probeAdapters is probe for what depends on the adapters of a step. Of rows of logits nothing is counted.
func (x *group) probeAdapters(n *graph.Node) {
	x.adapts = graph.IsAdapter(n)
	o, experts := n.Op.(graph.AdaptedMoE)
	if !x.adapts && !experts {
		return
	}
	work := func(of ...graph.StepAdapter) graph.Work {
		return n.Op.Work(n, &graph.Step{Seqs: []graph.Seq{{New: 1}}, Adapters: of})
	}
	minus := func(a, b graph.Work) graph.Work { return a.Plus(times(b, -1)) }
	row, rank := work(graph.StepAdapter{}), work(graph.StepAdapter{Rank: 1})
	x.perAdapted, x.perRankRow = minus(row, work()), minus(rank, row)
	x.perRankByte = minus(work(graph.StepAdapter{Rank: 1, Bytes: 1}), rank)
	if experts { // not linear: see work
		x.perRankByte.WeightBytes, x.adapted = 0, func(l adapterLoad) int64 { return o.AdapterBytes(n, l.rows, l.count, l.rankBytes) }
	}
}

// probe finds the coefficients of a node's work from its op's Work of steps that differ in one quantity. Windows are left out: the load
// counts only rows and pairs inside them.
func (x *group) probe(n *graph.Node, of func(n *graph.Node, s *graph.Step) graph.Work) {
	n = unwindowed(n)
	for _, v := range n.In {
		if v.Cache != nil {
			x.state = v.Cache.StateBytes()
		}
	}
	work := func(logits int, seqs ...graph.Seq) graph.Work {
		w := of(n, &graph.Step{Seqs: seqs, Logits: logits})
		if x.state > 0 { // a state is read and written once a sequence: see work
			w.CacheRead, w.CacheWrite = 0, 0
		}
		return w
	}
	minus := func(a, b graph.Work) graph.Work { return a.Plus(times(b, -1)) }
	x.fixed = work(0)
	x.perLogit = minus(work(1), x.fixed)
	// a = t+r+p, b = t+2r+2p, c = 2t+2r+3p for a token, a cache row and a pair.
	a := minus(work(0, graph.Seq{New: 1}), x.fixed)
	b := minus(work(0, graph.Seq{New: 1, Past: 1}), x.fixed)
	c := minus(work(0, graph.Seq{New: 2}), x.fixed)
	x.perPair = minus(c, times(a, 2))
	x.perRow = minus(minus(b, a), x.perPair)
	x.perToken = minus(minus(a, x.perRow), x.perPair)
	if o, ok := graph.Experts(n); ok {
		x.experts, x.held = o, n.Weights[graph.ExpertGate].Matrices()
		for _, w := range n.Weights {
			if w.Slots == nil {
				x.all += float64(w.Bytes())
			}
		}
		for _, w := range []*graph.Work{&x.fixed, &x.perToken, &x.perLogit, &x.perRow, &x.perPair} {
			w.WeightBytes = 0 // not linear: see work
		}
		// One row passes a whole number of experts; as many rows as there are experts pass as many as they do on average.
		x.perToken.FLOPs = minus(work(0, graph.Seq{New: o.Experts}), x.fixed).FLOPs / int64(o.Experts)
		x.perRow.FLOPs, x.perPair.FLOPs = 0, 0
	}
}

// unwindowed is a node with causal attention without a window.
func unwindowed(n *graph.Node) *graph.Node {
	open := *n
	if o, ok := graph.AttentionOf(n); ok {
		o.Bidirectional, o.Reach, o.Chunked = false, 0, false
		open.Op = o
		if ring, ok := n.Op.(graph.RingAttention); ok {
			ring.Attention = o
			open.Op = ring
		}
	}
	open.In = append([]*graph.Value(nil), n.In...)
	for i, v := range open.In {
		if v.Cache != nil && v.Cache.Window > 0 {
			value, cache := *v, *v.Cache
			cache.Window = 0
			value.Cache = &cache
			open.In[i] = &value
		}
	}
	return &open
}

// work is what one node of the group does.
func (x *group) work(l *load) graph.Work {
	w := x.fixed
	plus(&w, &x.perToken, l.tokens)
	plus(&w, &x.perLogit, l.logits)
	plus(&w, &x.perRow, l.rows[x.window])
	plus(&w, &x.perPair, l.pairs[x.window])
	if l.adapters.rows > 0 {
		plus(&w, &x.perAdapted, l.adapters.rows)
		plus(&w, &x.perRankRow, l.adapters.rankRows)
		plus(&w, &x.perRankByte, l.adapters.rankBytes)
	}
	w.CacheRead += x.state * l.resumed
	w.CacheWrite += x.state * l.seqs
	if x.experts.Experts > 0 {
		w.WeightBytes = int64(math.Round(x.all * x.experts.Reached(l.tokens)))
		if x.adapted != nil {
			w.WeightBytes += x.adapted(l.adapters)
		}
	}
	return w
}

// rowsEach is how many rows of each weight that is read are multiplied with it.
func (x *group) rowsEach(l *load) float64 {
	if o := x.experts; o.Experts > 0 && l.tokens > 0 {
		if o.Cached == o.Experts { // all are elsewhere
			return 0
		}
		return o.Passes(l.tokens) / (o.Reached(l.tokens) * float64(x.held))
	}
	return x.rows(l)
}

// rows is how many rows the group's nodes make.
func (x *group) rows(l *load) float64 {
	if x.onRows == graph.Logits {
		return float64(l.logits)
	}
	return float64(l.tokens)
}

// plus adds n times o.
func plus(w, o *graph.Work, n int64) {
	w.FLOPs += o.FLOPs * n
	w.WeightBytes += o.WeightBytes * n
	w.CacheRead += o.CacheRead * n
	w.CacheWrite += o.CacheWrite * n
	w.ValueRead += o.ValueRead * n
	w.ValueWrite += o.ValueWrite * n
	w.LinkBytes += o.LinkBytes * n
	w.Messages += o.Messages * n
}

func times(w graph.Work, n int64) graph.Work {
	var sum graph.Work
	plus(&sum, &w, n)
	return sum
}
