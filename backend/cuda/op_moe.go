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
	if o.Held != 0 || o.Experts > moe.MaxExperts || o.Top > moe.MaxTop || n.Out[0].Type != x.Type || !kernels.Plain(x.Type) {
		return nil
	}
	plain := kernel{dev: d, name: "moe plain", bind: bindPlainMoE, scratch: func(n *graph.Node, lim backend.Limits) int64 { return moeRoom(n, lim, 0, true).bytes }}
	if x.Type != graph.BF16 || x.Axis.Len()%8 != 0 || n.Weights[graph.ExpertGate].Out.Len()%8 != 0 {
		return []backend.Kernel{plain}
	}
	name := "moe " + formOf(n, graph.ExpertGate, graph.ExpertUp).String() + ", mma"
	return []backend.Kernel{kernel{dev: d, name: name, bind: bindMoE, scratch: func(n *graph.Node, lim backend.Limits) int64 { return moeRoom(n, lim, 0, false).bytes }}, plain}
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
	slots := int64(rows) * int64(o.Top)
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
	each, form := n.Op.(graph.MoE).Each(), moe.Form(n.Weights[places[0]].Format)
	for e := 0; e < len(n.Weights); e += each {
		for _, place := range places {
			if moe.Form(n.Weights[e+place].Format) != form {
				return quant.BF16
			}
		}
	}
	return form
}

func bindMoE(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, x, rows := n.Op.(graph.MoE), n.In[0], n.In[0].Rows
	m := moeRoom(n, a.Limits, at(a.Scratch), false)
	ffn, slots := n.Weights[graph.ExpertGate].Out.Len(), a.Limits.Rows(rows)*o.Top
	gate, down := formOf(n, graph.ExpertGate, graph.ExpertUp), formOf(n, graph.ExpertDown)
	woven, err := d.expertSlabs(expertsOf(a, o, graph.ExpertGate), expertsOf(a, o, graph.ExpertUp), gate)
	if err != nil {
		return nil, err
	}
	downs, err := d.expertSlabs(expertsOf(a, o, graph.ExpertDown), nil, down)
	if err != nil {
		return nil, err
	}
	var bias [3]driver.Ptr
	for i := range bias {
		if bias[i], err = d.expertBiases(a, o, i); err != nil {
			return nil, err
		}
	}
	router, err := moe.NewRouter(d.loader, n.In[1].Type, at(a.In[1]), o, countOf(rows), m.Slots)
	if err != nil {
		return nil, err
	}
	first := moe.Product{
		X: at(a.In[0]), Sorted: m.down, Slots: slots, W: woven, Gated: true, Y: m.gate, N: ffn, K: x.Axis.Len(),
		Bias: bias[graph.ExpertGate], UpBias: bias[graph.ExpertUp], Format: gate,
	}
	second := moe.Product{
		X: m.gate, BySlot: true, Slots: slots, W: downs, Y: m.down, N: x.Axis.Len(), K: ffn, Bias: bias[graph.ExpertDown], Format: down,
	}
	gated, err := moe.NewExperts(d.loader, first, o, m.Slots)
	if err != nil {
		return nil, err
	}
	last, err := moe.NewExperts(d.loader, second, o, m.Slots)
	if err != nil {
		return nil, err
	}
	var single *moe.Single
	if moe.Singles(o, x.Axis.Len(), ffn) {
		if single, err = moe.NewSingle(d.loader, n.In[1].Type, at(a.In[1]), first, second, at(a.Out[0]), o); err != nil {
			return nil, err
		}
	}
	sorter, err := moe.NewSorter(d.loader, at(a.In[0]), m.down, x.Axis.Len(), o, m.Slots)
	if err != nil {
		return nil, err
	}
	sum, err := moe.NewSummer(d.loader, x.Type, m.down, at(a.Out[0]), x.Axis.Len(), o, countOf(rows), m.Slots)
	if err != nil {
		return nil, err
	}
	sorts := moe.Sorts(d.loader, o, ffn, x.Axis.Len()) && moe.Sorts(d.loader, o, x.Axis.Len(), ffn)
	return func(s *step) error {
		r := s.rows(rows)
		if r == 0 {
			return nil
		}
		if single != nil && r <= moe.MostSingle {
			return single.Launch(d.stream, r)
		}
		each := moe.Each(o, r, sorts)
		if err := router.Launch(d.stream, &s.Step, r, each); err != nil {
			return err
		}
		if each > moe.MostUnsorted {
			if err := sorter.Launch(d.stream, r*o.Top); err != nil {
				return err
			}
		}
		if err := gated.Launch(d.stream, r, each); err != nil {
			return err
		}
		if err := last.Launch(d.stream, r, each); err != nil {
			return err
		}
		return sum.Launch(d.stream, &s.Step, r)
	}, nil
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
		list := expertsOf(a, o, i)
		as := list[0].plainType(x.Type)
		var err error
		if p.W, err = d.expertRows(list, as); err != nil {
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
		return sum.Launch(d.stream, &s.Step, r)
	}, nil
}
