package cpu

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// moe is a bound block of experts. A step's rows are sorted by expert, so that each expert's weights are read once for all the
// rows that take it:
//
//	scores ─► chosen, shares ─► slots: a row and one of its experts, expert by expert
//	x ─► a copy of its row for every slot ─► gate, up ─► fn(gate) × up ─► down ─► shares × slots, summed row by row
//
// Workers wait for each other between the steps of this, a handful of times however many experts there are.
type moe struct {
	dev      *Device
	op       graph.MoE
	format   gemm.ActFormat // of the inputs of products
	in, ffn  int
	products [][3]*product // of each expert, by graph.ExpertGate …

	x, out  []byte // rows of in numbers: in the format of products, and in F32
	scores  []float32
	line    int // bytes of a row of x
	wide    int // bytes of a row of gated numbers
	scratch moeScratch
}

// moeScratch is what a block of experts works in. A slot is one expert of one row; rows × Top of them are there.
type moeScratch struct {
	chosen []int32   // [row][Top] expert
	share  []float32 // [row][Top]
	slot   []int32   // [row][Top] where that expert's result is
	row    []int32   // [slot]
	first  []int32   // [expert + 1] its slots begin here
	x      []byte    // [slot] rows of in numbers
	gate   []float32 // [slot][ffn]
	up     []float32 // [slot][ffn]
	gated  []byte    // [slot] rows of ffn numbers; those of floats lie where the gates were
	down   []float32 // [slot][in]
}

// moeKernel is how the device computes a block of experts: inputs in Q8 with matrices in block formats, floats with floats; ""
// when it cannot.
func (d *Device) moeKernel(n *graph.Node) string {
	o := n.Op.(graph.MoE)
	for i, w := range n.Weights {
		if i%o.Each() <= graph.ExpertDown && (w.Format.Block() > 1) != (o.Round == graph.Q8) {
			return ""
		}
	}
	return fmt.Sprintf("moe %s %s", n.Weights[graph.ExpertGate].Format, d.tier)
}

// moeScratchBytes is a worker's part of the memory that all share.
func (d *Device) moeScratchBytes(n *graph.Node, lim backend.Limits) int64 {
	workers := int64(len(d.pool.workers))
	return (d.layOut(n, lim, nil, &moeScratch{})+workers-1)/workers + 64
}

// layOut divides memory for the largest step, and returns how much that takes; without memory it only counts.
func (d *Device) layOut(n *graph.Node, lim backend.Limits, memory []byte, s *moeScratch) int64 {
	o := n.Op.(graph.MoE)
	slots, in, ffn := lim.Rows(n.In[0].Rows)*o.Top, n.In[0].Axis.Len(), n.Weights[graph.ExpertGate].Out.Len()
	var used int64
	take := func(n int64) []byte {
		from := used
		used = (used + n + 63) &^ 63
		if memory == nil {
			return nil
		}
		return memory[from : from+n : from+n]
	}
	s.chosen, s.slot, s.row = as[int32](take(4*int64(slots))), as[int32](take(4*int64(slots))), as[int32](take(4*int64(slots)))
	s.first = as[int32](take(4 * int64(o.Experts+1)))
	s.share = as[float32](take(4 * int64(slots)))
	s.x = take(int64(slots) * n.In[0].RowBytes())
	gate := take(4 * int64(slots*ffn))
	s.gate, s.up = as[float32](gate), as[float32](take(4*int64(slots*ffn)))
	if o.Round == graph.Q8 {
		s.gated = take(int64(slots) * graph.Q8.RowBytes(ffn))
	} else {
		s.gated = gate
	}
	s.down = as[float32](take(4 * int64(slots*in)))
	return used
}

func bindMoE(d *Device, n *graph.Node, a backend.Args) (body, error) {
	o := n.Op.(graph.MoE)
	m := &moe{dev: d, op: o, in: n.In[0].Axis.Len(), ffn: n.Weights[graph.ExpertGate].Out.Len(), x: raw(a.In[0]), scores: floats(a.In[1]), out: raw(a.Out[0])}
	m.line, m.wide = int(n.In[0].RowBytes()), 4*m.ffn
	switch o.Round {
	case graph.Q8:
		m.format, m.wide = gemm.Lines, int(graph.Q8.RowBytes(m.ffn))
	case graph.BF16:
		m.format = gemm.ActFormatOf(d.tier, n.Weights[graph.ExpertGate].Format)
	}
	for e := range o.Experts {
		var expert [3]*product
		for i := range expert {
			matrix := a.Weights[e*o.Each()+i].(*matrix)
			if err := d.ready(matrix); err != nil {
				return nil, err
			}
			var bias vector
			if o.Biased {
				bias = a.Weights[e*o.Each()+o.Each()/2+i].(vector)
			}
			expert[i] = newProduct(d, matrix, bias)
		}
		m.products = append(m.products, expert)
	}
	d.layOut(n, a.Limits, raw(a.Scratch), &m.scratch)
	return func(w *worker, b *backend.Batch) { m.run(w, rows(n, b)) }, nil
}

func (m *moe) run(w *worker, rows int) {
	if rows == 0 {
		return
	}
	s := &m.scratch
	from, to := w.share(rows, 1)
	for r := from; r < to; r++ {
		m.choose(r)
	}
	w.sync()
	if w.id == 0 {
		s.sort(rows, m.op)
	}
	w.sync()
	slots := rows * m.op.Top
	from, to = w.share(slots, 1)
	m.gather(rows, from, to)
	w.sync()
	m.multiply(w, graph.ExpertGate, s.x, m.line, s.gate)
	m.multiply(w, graph.ExpertUp, s.x, m.line, s.up)
	w.sync()
	m.joinAll(from, to)
	w.sync()
	m.multiply(w, graph.ExpertDown, s.gated, m.wide, s.down)
	w.sync()
	from, to = w.share(rows, 1)
	for r := from; r < to; r++ {
		m.sum(r)
	}
}

// choose finds the experts of row r and their shares.
func (m *moe) choose(r int) {
	o, scores := m.op, m.scores[r*m.op.Experts:(r+1)*m.op.Experts]
	chosen, share := m.scratch.chosen[r*o.Top:(r+1)*o.Top], m.scratch.share[r*o.Top:(r+1)*o.Top]
	for k := range chosen { // the best so far, in order: an insertion for each score that is among them
		chosen[k] = -1
	}
	for e, score := range scores {
		k := o.Top
		for k > 0 && (chosen[k-1] < 0 || score > scores[chosen[k-1]]) {
			k--
		}
		if k < o.Top {
			copy(chosen[k+1:], chosen[k:])
			chosen[k] = int32(e)
		}
	}
	top := scores[chosen[0]]
	var sum float64
	for k, e := range chosen {
		share[k] = float32(math.Exp(float64(scores[e] - top)))
		sum += float64(share[k])
	}
	if o.OfAll {
		sum = 0
		for _, score := range scores {
			sum += math.Exp(float64(score - top))
		}
	}
	for k := range share {
		share[k] = float32(float64(share[k]) / sum)
	}
}

// sort gives the rows' experts their slots, expert by expert.
func (s *moeScratch) sort(rows int, o graph.MoE) {
	clear(s.first)
	for _, e := range s.chosen[:rows*o.Top] {
		s.first[e+1]++
	}
	for e := range o.Experts {
		s.first[e+1] += s.first[e]
	}
	for i, e := range s.chosen[:rows*o.Top] { // first moves on to the end of each expert's slots …
		s.slot[i] = s.first[e]
		s.row[s.first[e]] = int32(i / o.Top)
		s.first[e]++
	}
	copy(s.first[1:], s.first[:o.Experts]) // … which is where the next one's begin
	s.first[0] = 0
}

// inputs are the slots of expert e in x, whose rows take line bytes, as inputs of products with rows of k numbers.
func (m *moe) inputs(x []byte, line, e, k int) gemm.Acts {
	from, to := int(m.scratch.first[e]), int(m.scratch.first[e+1])
	if m.format == gemm.Lines {
		return gemm.TiledActs(m.dev.tier, x[from*line:], to-from, k)
	}
	a := gemm.FloatActs(as[float32](x[from*line:]), to-from, k)
	a.Format, a.Alone = m.format, m.dev.alone
	return a
}

// eachExpert calls do for every expert with slots among [from, to).
func (s *moeScratch) eachExpert(from, to int, do func(e, from, to int)) {
	for e := range len(s.first) - 1 {
		if first, last := max(from, int(s.first[e])), min(to, int(s.first[e+1])); first < last {
			do(e, first, last)
		}
	}
}

// gather copies rows of x into slots [from, to).
func (m *moe) gather(rows, from, to int) {
	s := &m.scratch
	if m.format != gemm.Lines {
		for i := from; i < to; i++ {
			copy(s.x[i*m.line:(i+1)*m.line], m.x[int(s.row[i])*m.line:])
		}
		return
	}
	x := gemm.TiledActs(m.dev.tier, m.x, rows, m.in)
	s.eachExpert(from, to, func(e, from, to int) {
		a := m.inputs(s.x, m.line, e, m.in)
		for i := from; i < to; i++ {
			a.CopyRow(i-int(s.first[e]), &x, int(s.row[i]))
		}
	})
}

// joinAll makes the gated numbers of slots [from, to).
func (m *moe) joinAll(from, to int) {
	s := &m.scratch
	s.eachExpert(from, to, func(e, from, to int) {
		a := m.inputs(s.gated, m.wide, e, m.ffn)
		for i := from; i < to; i++ {
			gated := s.gate[i*m.ffn : (i+1)*m.ffn]
			m.join(gated, s.up[i*m.ffn:(i+1)*m.ffn])
			if m.format == gemm.Lines {
				a.FillPart(m.dev.tier, gated, i-int(s.first[e]), 0)
			}
		}
	})
}

// multiply computes the worker's part of one product of every expert that has slots; a row of x takes line bytes.
func (m *moe) multiply(w *worker, which int, x []byte, line int, y []float32) {
	s := &m.scratch
	s.eachExpert(0, int(s.first[len(s.first)-1]), func(e, from, to int) {
		p := m.products[e][which]
		w.acts, w.out = m.inputs(x, line, e, p.matrix.Cols), y[from*p.matrix.Rows:]
		p.run(w, to-from)
	})
}

// join makes fn(gate) × up of a slot, in place of gate.
func (m *moe) join(gate, up []float32) {
	fn := functions[m.op.Fn]
	if c := float32(m.op.Clamp); c != 0 {
		// (u + 1) g σ(αg) is silu(αg) × (u + 1) / α
		for i, g := range gate {
			gate[i] = min(g, c) * graph.Alpha
			up[i] = (min(max(up[i], -c), c) + 1) * (1 / graph.Alpha)
		}
		fn = vec.Silu
	}
	m.dev.vec.ActMul(fn, gate, gate, up)
}

// sum adds up what row r's experts have made, in the order of their scores.
func (m *moe) sum(r int) {
	s, out := &m.scratch, as[float32](m.out)[r*m.in:(r+1)*m.in]
	for k := range m.op.Top {
		i := r*m.op.Top + k
		y, share := s.down[int(s.slot[i])*m.in:(int(s.slot[i])+1)*m.in], s.share[i]
		if k == 0 {
			m.dev.vec.Multiply(out, y, share)
		} else {
			m.dev.vec.Merge(out, y, 1, share)
		}
	}
}
