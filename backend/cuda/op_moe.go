package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// moes lists the kernels of a block of experts, the fastest first.
func (d *Device) moes(n *graph.Node) []backend.Kernel {
	o, x := n.Op.(graph.MoE), n.In[0]
	if o.Experts > moe.MaxExperts || o.TopK > moe.MaxTop || n.Out[0].Type != x.Type || !kernels.Plain(x.Type) {
		return nil
	}
	if o.Clamp == 0 && !hasExpertFn(o.Fn) {
		return nil
	}
	unfused := kernel{dev: d, name: "moe unfused", bind: bindUnfusedMoE, scratch: func(n *graph.Node, lim backend.Limits) int64 { return moeRoom(n, lim, 0, true).bytes }}
	if !tensorExperts(n) || o.Clamp == 0 && o.Fn == graph.Relu && !squaredExperts(n) {
		return []backend.Kernel{unfused}
	}
	name := "moe " + storedFormatOf(n, graph.ExpertGate, graph.ExpertUp).String() + ", mma"
	return []backend.Kernel{kernel{dev: d, name: name, bind: bindMoE, scratch: func(n *graph.Node, lim backend.Limits) int64 { return moeRoom(n, lim, 0, false).bytes }}, unfused}
}

// hasExpertFn reports whether there are kernels for gates of a function.
func hasExpertFn(f graph.Fn) bool { return f == graph.Silu || f == graph.GeluTanh || f == graph.Relu }

// squaredExperts reports whether gates and ups are products with one matrix, so that relu(gate) × up is max(x, 0)² of one product.
func squaredExperts(n *graph.Node) bool {
	o := n.Op.(graph.MoE)
	return o.Fn == graph.Relu && o.Clamp == 0 && !o.Biased && n.Weights[graph.ExpertGate] == n.Weights[graph.ExpertUp]
}

// tensorExperts reports whether a block's products are for the tensor cores: rows in BF16 that load 16 bytes at a time.
func tensorExperts(n *graph.Node) bool {
	return n.In[0].Type == graph.BF16 && n.In[0].Axis.Len()%8 == 0 && n.Weights[graph.ExpertGate].Out.Len()%8 == 0
}

// moeMemory is a block's scratch memory.
type moeMemory struct {
	moe.Slots
	gate, up driver.Ptr // [slots, ffn]; up: of a plain block
	down     driver.Ptr // [slots, in]; before it has results, the permuted rows
	bytes    int64
}

// moeRoom divides scratch memory for the largest step.
func moeRoom(n *graph.Node, lim backend.Limits, base driver.Ptr, unfused bool) (m moeMemory) {
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
	if unfused {
		m.up = take(slots * t.RowBytes(ffn))
	}
	m.down = take(slots * n.In[0].RowBytes())
	return m
}

// countOf is the index in a step's counts of the number of rows of a kind.
func countOf(r graph.Rows) int {
	switch r {
	case graph.Logits:
		return kernels.CountLogits
	case graph.Arrived:
		return kernels.CountArrived
	}
	return kernels.CountTokens
}

// storedFormatOf is the format in which the matrices with these places are kept, of all experts alike.
func storedFormatOf(n *graph.Node, places ...int) quant.Format {
	format := moe.StoredFormat(n.Weights[places[0]].Format)
	for _, place := range places {
		if moe.StoredFormat(n.Weights[place].Format) != format {
			return quant.BF16
		}
	}
	return format
}

// boundMoE is a block's kernels.
type boundMoE struct {
	op          graph.MoE
	format      quant.Format // of gate and up matrices
	rows        graph.Rows
	sm90        bool
	router      *moe.Router
	permuter    *moe.Permuter
	gated, down *moe.GroupedGemm
	sum         func(stream *driver.Stream, s *step, rows int, inOrder bool) error // inOrder: slots lie by rows, as GroupedGemv writes them
	gemv        *moe.GroupedGemv                                                   // for up to gemvRows rows; or nil
	gemvRows    int
	single      *moe.SingleRow // for up to singleRows rows; or nil
	singleRows  int
}

func bindMoE(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	b, err := d.bindExperts(n, a, nil)
	return func(s *step) error { return b.launch(d.stream, s) }, err
}

// bindExperts binds a block's kernels. If to is given, the residual add and the norm behind the block are fused; single rows only get the add.
func (d *Device) bindExperts(n *graph.Node, a backend.Args, to *moe.AddNorm) (*boundMoE, error) {
	o, x := n.Op.(graph.MoE), n.In[0]
	m, in, ffn := moeRoom(n, a.Limits, at(a.Scratch), false), x.Axis.Len(), n.Weights[graph.ExpertGate].Out.Len()
	gated, down, err := d.moeProducts(n, a, m)
	if err != nil {
		return nil, err
	}
	b := &boundMoE{op: o, format: gated.Format, rows: x.Rows, sm90: moe.HasSM90(d.loader, o, ffn, in)}
	if b.router, err = moe.NewRouter(d.loader, n.In[1].Type, at(a.In[1]), o, countOf(x.Rows), m.Slots); err != nil {
		return nil, err
	}
	if b.gated, err = moe.NewGroupedGemm(d.loader, gated, o, m.Slots); err != nil {
		return nil, err
	}
	if b.down, err = moe.NewGroupedGemm(d.loader, down, o, m.Slots); err != nil {
		return nil, err
	}
	if b.permuter, err = moe.NewPermuter(d.loader, gated.X, gated.Permuted, in, o, m.Slots); err != nil {
		return nil, err
	}
	if b.sum, err = d.bindExpertSum(n, a, m, to); err != nil {
		return nil, err
	}
	if b.gemvRows = moe.MaxGemvRows(d.loader, o, gated, down); b.gemvRows > 0 {
		if b.gemv, err = moe.NewGroupedGemv(d.loader, n.In[1].Type, at(a.In[1]), gated, down, o, countOf(x.Rows), m.Share); err != nil {
			return nil, err
		}
	}
	if b.singleRows = moe.MaxSingleRows(d.loader, o, gated, down); b.singleRows > 0 {
		y, residual := at(a.Out[0]), driver.Ptr(0)
		if to != nil {
			y, residual = to.Total, to.Residual
		}
		if b.single, err = moe.NewSingleRow(d.loader, n.In[1].Type, at(a.In[1]), gated, down, y, residual, o); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// bindExpertSum binds the combine of each row's results.
func (d *Device) bindExpertSum(n *graph.Node, a backend.Args, m moeMemory, to *moe.AddNorm) (func(*driver.Stream, *step, int, bool) error, error) {
	o, x := n.Op.(graph.MoE), n.In[0]
	if to != nil {
		sum, err := moe.NewCombineNorm(d.loader, m.down, x.Axis.Len(), o, countOf(x.Rows), m.Slots, *to)
		return func(stream *driver.Stream, s *step, rows int, inOrder bool) error {
			return sum.Launch(stream, &s.Step, rows, inOrder)
		}, err
	}
	sum, err := moe.NewCombine(d.loader, x.Type, m.down, at(a.Out[0]), x.Axis.Len(), o, countOf(x.Rows), m.Slots)
	return func(stream *driver.Stream, s *step, rows int, inOrder bool) error {
		return sum.Launch(stream, &s.Step, rows, inOrder)
	}, err
}

// expertSizes is a block's products without their memory.
func expertSizes(n *graph.Node) (gated, down moe.Product) {
	in, ffn := n.In[0].Axis.Len(), n.Weights[graph.ExpertGate].Out.Len()
	squared := squaredExperts(n)
	return moe.Product{Gated: !squared, Squared: squared, N: ffn, K: in, Format: storedFormatOf(n, graph.ExpertGate, graph.ExpertUp)}, moe.Product{N: in, K: ffn, Format: storedFormatOf(n, graph.ExpertDown)}
}

// moeProducts puts a block's weights on the device: the gated product and the one behind it.
func (d *Device) moeProducts(n *graph.Node, a backend.Args, m moeMemory) (gated, down moe.Product, err error) {
	o := n.Op.(graph.MoE)
	slots := a.Limits.Rows(n.In[0].Rows) * o.TopK
	gated, down = expertSizes(n)
	gated.X, gated.Permuted, gated.Slots, gated.Y = at(a.In[0]), m.down, slots, m.gate
	down.X, down.BySlot, down.Slots, down.Y = m.gate, true, slots, m.down
	var ups *stack
	if gated.Gated {
		ups = a.Weights[graph.ExpertUp].(*stack)
	}
	if gated.W, err = d.packedExperts(a.Weights[graph.ExpertGate].(*stack), ups, gated.Format); err != nil {
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

// alone reports whether so many rows run on SingleRow, which combines them too.
func (b *boundMoE) alone(rows int) bool { return rows <= b.singleRows }

func (b *boundMoE) launch(stream *driver.Stream, s *step) error {
	r := s.rows(b.rows)
	if r == 0 {
		return nil
	}
	if b.alone(r) {
		return b.single.Launch(stream, r)
	}
	if r <= b.gemvRows {
		if err := b.gemv.Launch(stream, &s.Step, r); err != nil {
			return err
		}
		return b.sum(stream, s, r, true)
	}
	each := moe.Each(b.op, b.format, r, b.sm90)
	if err := b.router.Launch(stream, &s.Step, r, each); err != nil {
		return err
	}
	if each > moe.MaxUnpermuted {
		if err := b.permuter.Launch(stream, r*b.op.TopK); err != nil {
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

// bindUnfusedMoE binds the SIMT fallback, for any floats.
func bindUnfusedMoE(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, x, rows := n.Op.(graph.MoE), n.In[0], n.In[0].Rows
	m := moeRoom(n, a.Limits, at(a.Scratch), true)
	ffn := n.Weights[graph.ExpertGate].Out.Len()
	products := [3]moe.Product{
		graph.ExpertGate: {X: at(a.In[0]), Y: m.gate, N: ffn, K: x.Axis.Len()},
		graph.ExpertUp:   {X: at(a.In[0]), Y: m.up, N: ffn, K: x.Axis.Len()},
		graph.ExpertDown: {X: m.gate, BySlot: true, Y: m.down, N: x.Axis.Len(), K: ffn},
	}
	var bound [3]*moe.Simt
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
		if bound[i], err = moe.NewSimt(d.loader, x.Type, as, p, o, m.Slots); err != nil {
			return nil, err
		}
	}
	router, err := moe.NewRouter(d.loader, n.In[1].Type, at(a.In[1]), o, countOf(rows), m.Slots)
	if err != nil {
		return nil, err
	}
	activation, err := moe.NewGatedActivation(d.loader, x.Type, m.gate, m.up, ffn, o, m.Slots)
	if err != nil {
		return nil, err
	}
	sum, err := moe.NewCombine(d.loader, x.Type, m.down, at(a.Out[0]), x.Axis.Len(), o, countOf(rows), m.Slots)
	if err != nil {
		return nil, err
	}
	return func(s *step) error {
		r := s.rows(rows)
		if r == 0 {
			return nil
		}
		if err := router.Launch(d.stream, &s.Step, r, moe.SimtJobSlots); err != nil {
			return err
		}
		for _, i := range []int{graph.ExpertGate, graph.ExpertUp} {
			if err := bound[i].Launch(d.stream, r); err != nil {
				return err
			}
		}
		if err := activation.Launch(d.stream); err != nil {
			return err
		}
		if err := bound[graph.ExpertDown].Launch(d.stream, r); err != nil {
			return err
		}
		return sum.Launch(d.stream, &s.Step, r, false)
	}, nil
}
