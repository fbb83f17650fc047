package cpu

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// router makes each expert's share of a row.
type router struct {
	op      graph.Route
	bias    vector // nil: none
	experts int
	room    []routerRoom // of each worker
}

// routerRoom is a worker's memory for one row.
type routerRoom struct {
	p, by  []float32 // probabilities, and what experts are chosen by
	groups []float32 // what groups are
	chosen []int32
}

func bindRoute(d *Device, n *graph.Node, a backend.Args) (body, error) {
	t := &router{op: n.Op.(graph.Route), experts: n.In[0].Axis.Len()}
	if len(a.Weights) == 1 {
		t.bias = a.Weights[0].(vector)
	}
	for range d.pool.N() {
		t.room = append(t.room, routerRoom{
			p: make([]float32, t.experts), by: make([]float32, t.experts),
			groups: make([]float32, t.op.Groups), chosen: make([]int32, max(t.op.TopK, t.op.TopGroups, 2)),
		})
	}
	scores, shares := floats(a.In[0]), floats(a.Out[0])
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for r := from; r < to; r++ {
			t.route(&t.room[w.id], scores[r*t.experts:(r+1)*t.experts], shares[r*t.experts:(r+1)*t.experts])
		}
	}, nil
}

// route makes one row's shares.
func (t *router) route(m *routerRoom, scores, shares []float32) {
	if t.op.Mixer != 0 {
		t.mix(m, scores, shares)
		return
	}
	t.probabilities(m.p, scores)
	copy(m.by, m.p)
	for e := range t.bias {
		m.by[e] += t.bias[e]
	}
	if t.op.Groups > 0 {
		t.maskGroups(m)
	}
	chosen := m.chosen[:t.op.TopK]
	largest(chosen, m.by)
	scale := t.op.Scale
	if scale == 0 {
		scale = 1
	}
	if !t.op.NoRenorm {
		var sum float64
		for _, e := range chosen {
			sum += float64(m.p[e])
		}
		scale /= sum
	}
	clear(shares)
	for _, e := range chosen {
		shares[e] = float32(float64(m.p[e]) * scale)
	}
}

// mix makes one row's shares of SparseMixer.
func (t *router) mix(m *routerRoom, scores, shares []float32) {
	chosen := m.chosen[:t.op.TopK]
	largest(chosen, scores)
	clear(shares)
	for _, best := range chosen {
		most, sum := scores[best], 0.0
		for e, s := range scores { // without those chosen before, which have a share
			if shares[e] == 0 && (most-s)/max(float32(math.Abs(float64(s))), most) <= float32(t.op.Mixer) {
				sum += math.Exp(float64(s - most))
			}
		}
		shares[best] = float32(1 / sum)
	}
}

func (t *router) probabilities(p, scores []float32) {
	if t.op.Sigmoid {
		for e, s := range scores {
			p[e] = float32(1 / (1 + math.Exp(-float64(s))))
		}
		return
	}
	most := scores[0]
	for _, s := range scores {
		most = max(most, s)
	}
	var sum float64
	for e, s := range scores {
		x := math.Exp(float64(s - most))
		p[e] = float32(x)
		sum += x
	}
	for e := range p {
		p[e] = float32(float64(p[e]) / sum)
	}
}

// maskGroups sets what experts outside the best groups are chosen by to 0.
func (t *router) maskGroups(m *routerRoom) {
	size := t.experts / t.op.Groups
	take := m.chosen[:1]
	if t.op.BestTwo {
		take = m.chosen[:2]
	}
	for g := range m.groups {
		group := m.by[g*size : (g+1)*size]
		largest(take, group)
		m.groups[g] = 0
		for _, e := range take {
			m.groups[g] += group[e]
		}
	}
	kept := m.chosen[:t.op.TopGroups]
	largest(kept, m.groups)
	for g := range m.groups {
		in := false
		for _, k := range kept {
			in = in || int(k) == g
		}
		if !in {
			clear(m.by[g*size : (g+1)*size])
		}
	}
}

// largest fills at with where the largest numbers of x are, in order, of equal ones the first: an insertion for each number that is
// among them.
func largest(at []int32, x []float32) {
	for k := range at {
		at[k] = -1
	}
	for i, v := range x {
		k := len(at)
		for k > 0 && (at[k-1] < 0 || v > x[at[k-1]]) {
			k--
		}
		if k < len(at) {
			copy(at[k+1:], at[k:])
			at[k] = int32(i)
		}
	}
}

// bindGateRows is x × sigmoid(largest gate), row by row.
func bindGateRows(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, gate, out, width := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), n.Out[0].Axis.Len()
	gates := n.In[1].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for r := from; r < to; r++ {
			v.Multiply(out[r*width:(r+1)*width], x[r*width:(r+1)*width], float32(1/(1+math.Exp(-float64(slices.Max(gate[r*gates:(r+1)*gates]))))))
		}
	}
}
