package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// moes lists the ways to compute a block of experts, the fastest first.
func (d *Device) moes(n *graph.Node) []backend.Kernel {
	o, x := n.Op.(graph.MoE), n.In[0]
	if o.Held != 0 || o.Experts > moe.MaxExperts || o.TopK > moe.MaxTop || n.Out[0].Type != x.Type || !kernels.Plain(x.Type) {
		return nil
	}
	plain := kernel{dev: d, name: "moe plain", bind: bindPlainMoE, scratch: func(n *graph.Node, lim backend.Limits) int64 { return moeRoom(n, lim, 0, true).bytes }}
	if !tensorExperts(n) {
		return []backend.Kernel{plain}
	}
	name := "moe " + formOf(n, graph.ExpertGate, graph.ExpertUp).String() + ", mma"
	return []backend.Kernel{kernel{dev: d, name: name, bind: bindMoE, scratch: func(n *graph.Node, lim backend.Limits) int64 { return moeRoom(n, lim, 0, false).bytes }}, plain}
}

// tensorExperts reports whether a block's products are for the tensor cores: rows in BF16 that load 16 bytes at a time.
func tensorExperts(n *graph.Node) bool {
	return n.In[0].Type == graph.BF16 && n.In[0].Axis.Len()%8 == 0 && n.Weights[graph.ExpertGate].Out.Len()%8 == 0
}

// moeMemory is where a block of experts works.
type moeMemory struct {
	moe.Slots
	gate, up driver.Ptr // [slots, ffn]; up: of a plain block
	down     driver.Ptr // [slots, in]; before it has results, the slots' rows, where they are sorted
	bytes    int64
}

// moeRoom divides scratch memory for the largest step.
func moeRoom(n *graph.Node, lim backend.Limits, base driver.Ptr, plain bool) (m moeMemory) {
	o, t, ffn := n.Op.(graph.MoE), n.In[0].Type, n.Weights[graph.ExpertGate].Out.Len()
	rows := lim.Rows(n.In[0].Rows)
	slots := int64(rows) * int64(o.TopK)
	take := func(bytes int64) driver.Ptr {
		at := base + driver.Ptr(m.bytes)
		m.bytes += (bytes + 255) &^ 255
		return at
	}
	m.Chosen, m.Share, m.Slot, m.Row = take(4*slots), take(4*slots), take(4*slots), take(4*slots)
	m.First, m.Total = take(4*int64(o.Experts+1)), take(4)
	m.Jobs = take(moe.JobBytes * int64(moe.Jobs(o, rows, moe.LeastEach)))
	m.gate = take(slots * t.RowBytes(ffn))
	if plain {
		m.up = take(slots * t.RowBytes(ffn))
	}
	m.down = take(slots * n.In[0].RowBytes())
	return m
}

// countOf is which of a step's counts says how many rows there are of a kind.
func countOf(r graph.Rows) int {
	if r == graph.Logits {
		return kernels.CountLogits
	}
	return kernels.CountTokens
}

// formOf is the form in which the matrices with these places are kept, of all experts alike.
func formOf(n *graph.Node, places ...int) quant.Format {
	form := moe.Form(n.Weights[places[0]].Format)
	for _, place := range places {
		if moe.Form(n.Weights[place].Format) != form {
			return quant.BF16
		}
	}
	return form
}

// boundMoE is a block's kernels.
type boundMoE struct {
	op          graph.MoE
	form        quant.Format // of gate and up matrices
	rows        graph.Rows
	sorts       bool
	router      *moe.Router
	sorter      *moe.Sorter
	gated, down *moe.Experts
	sum         func(stream *driver.Stream, s *step, rows int, few bool) error // few: of the results of few
	few         *moe.Few                                                       // up to so many rows; or nil
	fewRows     int
	single      *moe.Single // up to so many rows by themselves; or nil
	singleRows  int
}

func bindMoE(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	b, err := d.bindExperts(n, a, nil)
	return func(s *step) error { return b.launch(d.stream, s) }, err
}

// bindExperts binds a block's kernels. With to it has its results added to others and normalised; those of rows that are alone it only adds.
func (d *Device) bindExperts(n *graph.Node, a backend.Args, to *moe.Normed) (*boundMoE, error) {
	o, x := n.Op.(graph.MoE), n.In[0]
	m, in, ffn := moeRoom(n, a.Limits, at(a.Scratch), false), x.Axis.Len(), n.Weights[graph.ExpertGate].Out.Len()
	gated, down, err := d.moeProducts(n, a, m)
	if err != nil {
		return nil, err
	}
	b := &boundMoE{op: o, form: gated.Format, rows: x.Rows, sorts: moe.Sorts(d.loader, o, ffn, in)}
	if b.router, err = moe.NewRouter(d.loader, n.In[1].Type, at(a.In[1]), o, countOf(x.Rows), m.Slots); err != nil {
		return nil, err
	}
	if b.gated, err = moe.NewExperts(d.loader, gated, o, m.Slots); err != nil {
		return nil, err
	}
	if b.down, err = moe.NewExperts(d.loader, down, o, m.Slots); err != nil {
		return nil, err
	}
	if b.sorter, err = moe.NewSorter(d.loader, gated.X, gated.Sorted, in, o, m.Slots); err != nil {
		return nil, err
	}
	if b.sum, err = d.bindExpertSum(n, a, m, to); err != nil {
		return nil, err
	}
	if b.fewRows = moe.FewRows(d.loader, o, gated, down); b.fewRows > 0 {
		if b.few, err = moe.NewFew(d.loader, n.In[1].Type, at(a.In[1]), gated, down, o, countOf(x.Rows), m.Share); err != nil {
			return nil, err
		}
	}
	if b.singleRows = moe.SingleRows(d.loader, o, gated, down); b.singleRows > 0 {
		y, residual := at(a.Out[0]), driver.Ptr(0)
		if to != nil {
			y, residual = to.Total, to.Residual
		}
		if b.single, err = moe.NewSingle(d.loader, n.In[1].Type, at(a.In[1]), gated, down, y, residual, o); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// bindExpertSum binds what adds up each row's results.
func (d *Device) bindExpertSum(n *graph.Node, a backend.Args, m moeMemory, to *moe.Normed) (func(*driver.Stream, *step, int, bool) error, error) {
	o, x := n.Op.(graph.MoE), n.In[0]
	if to != nil {
		sum, err := moe.NewSumNormer(d.loader, m.down, x.Axis.Len(), o, countOf(x.Rows), m.Slots, *to)
		return func(stream *driver.Stream, s *step, rows int, few bool) error {
			return sum.Launch(stream, &s.Step, rows, few)
		}, err
	}
	sum, err := moe.NewSummer(d.loader, x.Type, m.down, at(a.Out[0]), x.Axis.Len(), o, countOf(x.Rows), m.Slots)
	return func(stream *driver.Stream, s *step, rows int, few bool) error {
		return sum.Launch(stream, &s.Step, rows, few)
	}, err
}

// expertSizes is a block's products without their memory.
func expertSizes(n *graph.Node) (gated, down moe.Product) {
	in, ffn := n.In[0].Axis.Len(), n.Weights[graph.ExpertGate].Out.Len()
	return moe.Product{Gated: true, N: ffn, K: in, Format: formOf(n, graph.ExpertGate, graph.ExpertUp)}, moe.Product{N: in, K: ffn, Format: formOf(n, graph.ExpertDown)}
}

// moeProducts puts a block's weights on the device: the gated product and the one behind it.
func (d *Device) moeProducts(n *graph.Node, a backend.Args, m moeMemory) (gated, down moe.Product, err error) {
	o := n.Op.(graph.MoE)
	slots := a.Limits.Rows(n.In[0].Rows) * o.TopK
	gated, down = expertSizes(n)
	gated.X, gated.Sorted, gated.Slots, gated.Y = at(a.In[0]), m.down, slots, m.gate
	down.X, down.BySlot, down.Slots, down.Y = m.gate, true, slots, m.down
	if gated.W, err = d.packedExperts(a.Weights[graph.ExpertGate].(*stack), a.Weights[graph.ExpertUp].(*stack), gated.Format); err != nil {
		return gated, down, err
	}
	if down.W, err = d.packedExperts(a.Weights[graph.ExpertDown].(*stack), nil, down.Format); err != nil {
		return gated, down, err
	}
	for place, bias := range [...]*driver.Ptr{graph.ExpertGate: &gated.Bias, graph.ExpertUp: &gated.UpBias, graph.ExpertDown: &down.Bias} {
		if *bias, err = d.expertBiases(a, o, place); err != nil {
			return gated, down, err
		}
	}
	return gated, down, nil
}

// alone reports whether so many rows are computed each by itself, and summed up likewise.
func (b *boundMoE) alone(rows int) bool { return rows <= b.singleRows }

func (b *boundMoE) launch(stream *driver.Stream, s *step) error {
	r := s.rows(b.rows)
	if r == 0 {
		return nil
	}
	if b.alone(r) {
		return b.single.Launch(stream, r)
	}
	if r <= b.fewRows {
		if err := b.few.Launch(stream, &s.Step, r); err != nil {
			return err
		}
		return b.sum(stream, s, r, true)
	}
	each := moe.Each(b.op, b.form, r, b.sorts)
	if err := b.router.Launch(stream, &s.Step, r, each); err != nil {
		return err
	}
	if each > moe.MostUnsorted {
		if err := b.sorter.Launch(stream, r*b.op.TopK); err != nil {
			return err
		}
	}
	if err := b.gated.Launch(stream, r, each); err != nil {
		return err
	}
	if err := b.down.Launch(stream, r, each); err != nil {
		return err
	}
	return b.sum(stream, s, r, false)
}

// bindPlainMoE binds the kernels for any floats.
func bindPlainMoE(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, x, rows := n.Op.(graph.MoE), n.In[0], n.In[0].Rows
	m := moeRoom(n, a.Limits, at(a.Scratch), true)
	ffn := n.Weights[graph.ExpertGate].Out.Len()
	products := [3]moe.Product{
		graph.ExpertGate: {X: at(a.In[0]), Y: m.gate, N: ffn, K: x.Axis.Len()},
		graph.ExpertUp:   {X: at(a.In[0]), Y: m.up, N: ffn, K: x.Axis.Len()},
		graph.ExpertDown: {X: m.gate, BySlot: true, Y: m.down, N: x.Axis.Len(), K: ffn},
	}
	var bound [3]*moe.Plain
	for i, p := range products {
		experts := a.Weights[i].(*stack)
		as := floatType(experts.matrices[0].Format, x.Type)
		var err error
		if p.W, err = d.expertRows(experts, as); err != nil {
			return nil, err
		}
		if p.Bias, err = d.expertBiases(a, o, i); err != nil {
			return nil, err
		}
		if bound[i], err = moe.NewPlain(d.loader, x.Type, as, p, o, m.Slots); err != nil {
			return nil, err
		}
	}
	router, err := moe.NewRouter(d.loader, n.In[1].Type, at(a.In[1]), o, countOf(rows), m.Slots)
	if err != nil {
		return nil, err
	}
	join, err := moe.NewJoiner(d.loader, x.Type, m.gate, m.up, ffn, o, m.Slots)
	if err != nil {
		return nil, err
	}
	sum, err := moe.NewSummer(d.loader, x.Type, m.down, at(a.Out[0]), x.Axis.Len(), o, countOf(rows), m.Slots)
	if err != nil {
		return nil, err
	}
	return func(s *step) error {
		r := s.rows(rows)
		if r == 0 {
			return nil
		}
		if err := router.Launch(d.stream, &s.Step, r, moe.PlainEach); err != nil {
			return err
		}
		for _, i := range []int{graph.ExpertGate, graph.ExpertUp} {
			if err := bound[i].Launch(d.stream, r); err != nil {
				return err
			}
		}
		if err := join.Launch(d.stream); err != nil {
			return err
		}
		if err := bound[graph.ExpertDown].Launch(d.stream, r); err != nil {
			return err
		}
		return sum.Launch(d.stream, &s.Step, r, false)
	}, nil
}
