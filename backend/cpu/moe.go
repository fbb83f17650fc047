package cpu

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// moe is a bound block of experts. A step's (row, expert) pairs are sorted by expert (permuted), so that each expert's weights are read
// once for all its rows:
//
//	router scores ─► top-k experts, shares ─► pairs of a row and one of its experts, sorted by expert
//	x ─► permuted: a copy of its row for every pair ─► gate, up ─► fn(gate) × up ─► down ─► combined: Σ share × result, by row
//
// There is a barrier between these stages, six in all however many experts there are.
type moe struct {
	dev     *Device
	op      graph.MoE
	format  gemm.ActFormat // of the inputs of matmuls
	in, ffn int
	matmuls [][3]*matmul // of each expert, by graph.ExpertGate …; nil of those that other devices hold

	x, out        []byte // rows of in numbers: in the format of matmuls, and in F32
	scores        []float32
	xRowBytes     int // bytes of a row of x
	gatedRowBytes int // bytes of a row of gated numbers
	scratch       moeScratch
	rounds        bool         // see roundsExperts
	adapters      *moeAdapters // nil: the node has none
}

// moeKernel is how the device computes a block of experts: matrices in block formats with inputs in Q8, or, where the inputs are floats,
// dequantised a panel at a time; floats with floats.
func (d *Device) moeKernel(n *graph.Node) string {
	format := n.Weights[graph.ExpertGate].Format
	if decodesExperts(n) {
		return "moe decoding " + format.String()
	}
	return fmt.Sprintf("moe %s %s", format, d.tier)
}

// decodesExperts reports whether any matrices of a block of experts are dequantised: those in a block format beside others that are not, and
// those whose codes are no whole numbers.
func decodesExperts(n *graph.Node) bool {
	o, _ := graph.Experts(n)
	return o.ActType != graph.Q8 && slices.ContainsFunc(n.Weights[:graph.ExpertMatrices], func(w *graph.Weight) bool { return w.Format.Block() > 1 })
}

// roundsExperts reports whether the inputs of experts with many rows are rounded to Q8, and their matrices made bytes of as they are used.
func (d *Device) roundsExperts(n *graph.Node) bool {
	o, _ := graph.Experts(n)
	return o.Rounds && !d.deterministic && n.In[0].Axis.Len()%graph.Q8Block == 0 && n.Weights[graph.ExpertGate].Out.Len()%graph.Q8Block == 0
}

func bindMoE(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o, _ := graph.Experts(n)
	m := &moe{dev: d, op: o, in: n.In[0].Axis.Len(), ffn: n.Weights[graph.ExpertGate].Out.Len(), x: raw(a.In[0]), scores: floats(a.In[1]), out: raw(a.Out[0])}
	m.xRowBytes, m.gatedRowBytes = int(n.In[0].RowBytes()), 4*m.ffn
	switch o.ActType {
	case graph.Q8:
		m.format, m.gatedRowBytes = gemm.Q8, int(graph.Q8.RowBytes(m.ffn))
	case graph.BF16:
		m.format = gemm.ActFormatOf(d.tier, n.Weights[graph.ExpertGate].Format)
	}
	m.matmuls = make([][3]*matmul, o.Experts)
	for e := range n.Weights[graph.ExpertGate].Matrices() {
		expert := &m.matmuls[o.First+e]
		for i := range expert {
			matrix := a.Weights[i].(stack)[e].(*matrix)
			var bias vector
			if o.Biased && !(o.NoDownBias && i == graph.ExpertDown) {
				bias = a.Weights[graph.ExpertMatrices+i].(stack)[e].(vector)
			}
			if matrix.Format.Block() > 1 && o.ActType != graph.Q8 {
				expert[i] = &matmul{d: d, matrix: matrix, bias: bias, decoded: true}
				continue
			}
			if err := d.preparePacked(matrix); err != nil {
				return nil, err
			}
			expert[i] = newMatmul(d, matrix, bias)
		}
	}
	m.rounds = d.roundsExperts(n)
	d.layOut(n, a.Limits, raw(a.Scratch), &m.scratch)
	if _, ok := n.Op.(graph.AdaptedMoE); ok {
		m.adapters = newMoEAdapters(d, n, a)
	}
	return func(w *worker, b *backend.Batch) { m.run(w, b, rows(n, b)) }, nil
}

func (m *moe) run(w *worker, b *backend.Batch, rows int) {
	if rows == 0 {
		return
	}
	s := &m.scratch
	from, to := w.share(rows, 1)
	for r := from; r < to; r++ {
		m.route(r)
	}
	w.sync()
	if w.id == 0 {
		s.sortByExpert(rows, m.op)
	}
	w.sync()
	from, to = w.share(int(s.offset[m.op.Experts]), 1)
	m.permute(rows, from, to)
	w.sync()
	m.multiply(w, graph.ExpertGate, s.x, m.xRowBytes, s.gate)
	m.multiply(w, graph.ExpertUp, s.x, m.xRowBytes, s.up)
	w.sync()
	adapted := m.adapters != nil && len(b.Adapters) > 0
	if adapted {
		m.adaptFirst(w, b, rows)
		w.sync()
	}
	m.activate(from, to)
	w.sync()
	m.multiply(w, graph.ExpertDown, s.gated, m.gatedRowBytes, s.down)
	w.sync()
	from, to = w.share(rows, 1)
	if adapted {
		m.adapt(w, b, graph.ExpertDown, from, to)
	}
	for r := from; r < to; r++ {
		m.combine(r)
	}
}

// inputs are the pairs of expert e in x, whose rows take rowBytes bytes, as inputs of matmuls with rows of k numbers.
func (m *moe) inputs(x []byte, rowBytes, e, k int) gemm.Acts {
	from, to := int(m.scratch.offset[e]), int(m.scratch.offset[e+1])
	if m.format == gemm.Q8 {
		return gemm.TiledActs(m.dev.tier, x[from*rowBytes:], to-from, k)
	}
	a := gemm.FloatActs(as[float32](x[from*rowBytes:]), to-from, k)
	a.Format, a.BatchInvariant = m.format, m.dev.deterministic
	return a
}

// permute copies rows of x to pairs [from, to).
func (m *moe) permute(rows, from, to int) {
	s := &m.scratch
	if m.format != gemm.Q8 {
		for i := from; i < to; i++ {
			copy(s.x[i*m.xRowBytes:(i+1)*m.xRowBytes], m.x[int(s.source[i])*m.xRowBytes:])
		}
		s.eachExpert(from, to, func(e, from, to int) { m.round(e, from, to, as[float32](s.x), m.in) })
		return
	}
	x := gemm.TiledActs(m.dev.tier, m.x, rows, m.in)
	s.eachExpert(from, to, func(e, from, to int) {
		a := m.inputs(s.x, m.xRowBytes, e, m.in)
		for i := from; i < to; i++ {
			a.CopyRow(i-int(s.offset[e]), &x, int(s.source[i]))
		}
	})
}

// inBytes are the inputs of expert e for matrices of k columns that are multiplied in bytes; false: they are not.
func (m *moe) inBytes(e, k int) (a gemm.Acts, ok bool) {
	from, n := int(m.scratch.offset[e]), int(m.scratch.offset[e+1]-m.scratch.offset[e])
	if !m.rounds {
		return a, false
	}
	some16 := false
	for _, p := range m.matmuls[e] {
		if p == nil || !m.dev.inBytes(p.matrix.Format, n) {
			return a, false
		}
		_, sub16 := m.dev.vec.BytesOf(p.matrix.Format)
		some16 = some16 || sub16
	}
	return gemm.ByteActs(m.dev.tier, m.scratch.bytes[gemm.ActBytes(gemm.Q8, from, k):], n, k, some16), true
}

// round rounds pairs [from, to) of x, all of expert e, to bytes if these are multiplied.
func (m *moe) round(e, from, to int, x []float32, k int) {
	a, ok := m.inBytes(e, k)
	for i := from; i < to && ok; i++ {
		a.FillPart(m.dev.tier, x[i*k:(i+1)*k], i-int(m.scratch.offset[e]), 0)
	}
}

// activate makes fn(gate) × up of pairs [from, to).
func (m *moe) activate(from, to int) {
	s := &m.scratch
	s.eachExpert(from, to, func(e, from, to int) {
		if !m.holds(e) {
			return
		}
		a := m.inputs(s.gated, m.gatedRowBytes, e, m.ffn)
		for i := from; i < to; i++ {
			gated := s.gate[i*m.ffn : (i+1)*m.ffn]
			m.actMul(gated, s.up[i*m.ffn:(i+1)*m.ffn])
			if m.format == gemm.Q8 {
				a.FillPart(m.dev.tier, gated, i-int(s.offset[e]), 0)
			}
		}
		m.round(e, from, to, s.gate, m.ffn)
	})
}

// multiply computes the worker's part of one matmul of every expert that has pairs (a grouped GEMM); a row of x takes rowBytes bytes.
func (m *moe) multiply(w *worker, which int, x []byte, rowBytes int, y []float32) {
	s := &m.scratch
	s.eachExpert(0, int(s.offset[len(s.offset)-1]), func(e, from, to int) {
		p := m.matmuls[e][which]
		if p == nil {
			return
		}
		if p.decoded {
			m.multiplyDecoded(w, p, as[float32](x[from*rowBytes:]), y[from*p.matrix.Rows:], e, to-from)
			return
		}
		w.acts, w.out = m.inputs(x, rowBytes, e, p.matrix.Cols), y[from*p.matrix.Rows:]
		p.run(w, to-from)
	})
}

// multiplyDecoded computes the worker's part of n rows x of a matmul of expert e whose matrix is decoded as it is used.
func (m *moe) multiplyDecoded(w *worker, p *matmul, x, y []float32, e, n int) {
	from, to := w.share(p.matrix.Rows, gemm.NR)
	panel := m.scratch.panels[w.id]
	if acts, ok := m.inBytes(e, p.matrix.Cols); ok {
		w.acts = acts
		m.dev.multiplyBytes(w, p.matrix, panel, y, n, from, to)
	} else {
		m.dev.multiplyDecoded(w, p.matrix, panel, y, x, n, from, to)
	}
	addBias(y, p.bias, 0, n, p.matrix.Rows, from, to)
}

// actMul makes fn(gate) × up of a pair, in place of gate.
func (m *moe) actMul(gate, up []float32) {
	fn := functions[m.op.Fn]
	if c := float32(m.op.Clamp); c != 0 {
		// (u + 1) g σ(αg) is silu(αg) × (u + 1) / α
		for i, g := range gate {
			gate[i] = min(g, c) * graph.SwiGLUAlpha
			up[i] = (min(max(up[i], -c), c) + 1) * (1 / graph.SwiGLUAlpha)
		}
		fn = vec.Silu
	}
	m.dev.vec.ActMul(fn, gate, gate, up)
}

// holds reports whether an expert is on this device.
func (m *moe) holds(e int) bool { return m.matmuls[e][graph.ExpertGate] != nil }

// combine adds up the results of row r's experts, in the order of their scores.
func (m *moe) combine(r int) {
	s, out := &m.scratch, as[float32](m.out)[r*m.in:(r+1)*m.in]
	first := true
	for k := range m.op.TopK {
		i := r*m.op.TopK + k
		if s.expert[i] < 0 || !m.holds(int(s.expert[i])) {
			continue
		}
		y, share := s.down[int(s.pair[i])*m.in:(int(s.pair[i])+1)*m.in], s.share[i]
		if first {
			m.dev.vec.Multiply(out, y, share)
		} else {
			m.dev.vec.Axpby(out, y, 1, share)
		}
		first = false
	}
	if first {
		clear(out)
	}
}
