package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

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

// moeScratchBytes is a worker's part of the memory that all share.
func (d *Device) moeScratchBytes(n *graph.Node, lim backend.Limits) int64 {
	workers := int64(d.pool.N())
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
	if o.ActType == graph.Q8 {
		s.gated = take(int64(slots) * graph.Q8.RowBytes(ffn))
	} else {
		s.gated = gate
	}
	s.down = as[float32](take(4 * int64(slots*in)))
	return used
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

// eachExpert calls do for every expert with slots among [from, to).
func (s *moeScratch) eachExpert(from, to int, do func(e, from, to int)) {
	for e := range len(s.first) - 1 {
		if first, last := max(from, int(s.first[e])), min(to, int(s.first[e+1])); first < last {
			do(e, first, last)
		}
	}
}
