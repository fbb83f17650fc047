package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/graph"
)

// moeScratch is the working memory of a block of experts. A pair is a row and one of its experts; there are rows × Top of them.
type moeScratch struct {
	expert []int32   // [row][Top] experts chosen by the router; -1: there are fewer
	share  []float32 // [row][Top] their weights
	pair   []int32   // [row][Top] which pair it is
	source []int32   // [pair] its row
	offset []int32   // [expert + 1] where its pairs begin
	x      []byte    // [pair] rows of in numbers
	gate   []float32 // [pair][ffn]
	up     []float32 // [pair][ffn]
	gated  []byte    // [pair] rows of ffn numbers; floats are in place of gate
	down   []float32 // [pair][in]

	panels [][]float32 // of each worker, NR rows of a matrix that is dequantised
	bytes  []byte      // [pair] rows of in or of ffn numbers in Q8, of experts that are multiplied in bytes
}

// moeScratchBytes is a worker's part of the memory that all share.
func (d *Device) moeScratchBytes(n *graph.Node, lim backend.Limits) int64 {
	workers := int64(d.pool.N())
	return (d.layOut(n, lim, nil, &moeScratch{})+workers-1)/workers + 64
}

// layOut divides memory for the largest step, and returns how much that takes; without memory it only counts.
func (d *Device) layOut(n *graph.Node, lim backend.Limits, memory []byte, s *moeScratch) int64 {
	o, _ := graph.Experts(n)
	pairs, in, ffn := lim.Rows(n.In[0].Rows)*o.TopK, n.In[0].Axis.Len(), n.Weights[graph.ExpertGate].Out.Len()
	var used int64
	take := func(n int64) []byte {
		from := used
		used = (used + n + 63) &^ 63
		if memory == nil {
			return nil
		}
		return memory[from : from+n : from+n]
	}
	s.expert, s.pair, s.source = as[int32](take(4*int64(pairs))), as[int32](take(4*int64(pairs))), as[int32](take(4*int64(pairs)))
	s.offset = as[int32](take(4 * int64(o.Experts+1)))
	s.share = as[float32](take(4 * int64(pairs)))
	s.x = take(int64(pairs) * n.In[0].RowBytes())
	gate := take(4 * int64(pairs*ffn))
	s.gate, s.up = as[float32](gate), as[float32](take(4*int64(pairs*ffn)))
	if o.ActType == graph.Q8 {
		s.gated = take(int64(pairs) * graph.Q8.RowBytes(ffn))
	} else {
		s.gated = gate
	}
	s.down = as[float32](take(4 * int64(pairs*in)))
	if decodesExperts(n) {
		for range d.pool.N() {
			s.panels = append(s.panels, as[float32](take(4*gemm.NR*int64(max(in, ffn)))))
		}
		if d.roundsExperts(n) {
			s.bytes = take(int64(gemm.ActBytes(gemm.Q8, pairs, max(in, ffn))))
		}
	}
	return used
}

// route is the largest-k router: it finds the experts of row r and their shares.
func (m *moe) route(r int) {
	o, scores := m.op, m.scores[r*m.op.Experts:(r+1)*m.op.Experts]
	chosen, share := m.scratch.expert[r*o.TopK:(r+1)*o.TopK], m.scratch.share[r*o.TopK:(r+1)*o.TopK]
	largest(chosen, scores)
	if o.Shares {
		for k, e := range chosen {
			if share[k] = scores[e]; share[k] == 0 { // the row has fewer, or others' are elsewhere
				chosen[k] = -1
			}
		}
		return
	}
	most := scores[chosen[0]]
	var sum float64
	for k, e := range chosen {
		share[k] = float32(math.Exp(float64(scores[e] - most)))
		sum += float64(share[k])
	}
	if o.NoRenorm {
		sum = 0
		for _, score := range scores {
			sum += math.Exp(float64(score - most))
		}
	}
	for k := range share {
		share[k] = float32(float64(share[k]) / sum)
	}
}

// sortByExpert assigns pairs to the rows' experts, sorted by expert: a counting sort.
func (s *moeScratch) sortByExpert(rows int, o graph.MoE) {
	clear(s.offset)
	for _, e := range s.expert[:rows*o.TopK] {
		if e >= 0 {
			s.offset[e+1]++
		}
	}
	for e := range o.Experts {
		s.offset[e+1] += s.offset[e]
	}
	for i, e := range s.expert[:rows*o.TopK] { // offset advances to the end of each expert's pairs …
		if e < 0 {
			continue
		}
		s.pair[i] = s.offset[e]
		s.source[s.offset[e]] = int32(i / o.TopK)
		s.offset[e]++
	}
	copy(s.offset[1:], s.offset[:o.Experts]) // … which is where the next one's begin
	s.offset[0] = 0
}

// eachExpert calls do for every expert with pairs among [from, to).
func (s *moeScratch) eachExpert(from, to int, do func(e, from, to int)) {
	for e := range len(s.offset) - 1 {
		if first, last := max(from, int(s.offset[e])), min(to, int(s.offset[e+1])); first < last {
			do(e, first, last)
		}
	}
}
