package ref

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// moe runs each row through its top-k experts. An expert's weights are read once for all its rows.
func moe(d *Device, n *graph.Node, a backend.Args) {
	o, _ := graph.Experts(n)
	adapt := d.expertAdapters(n, a)
	rows := d.rows(n)
	x, out := make([][]float32, rows), make([][]float64, rows)
	rowsOf := make([][]int, o.Experts) // rows of each expert
	held := n.Weights[graph.ExpertGate].Matrices()
	shares := make([][]float64, rows) // of each expert
	for r := range x {
		x[r], out[r] = d.read(n, a, 0, r), make([]float64, n.In[0].Axis.Len())
		if o.ActType == graph.BF16 {
			roundBF16(x[r])
		}
		shares[r] = d.route(o, d.read(n, a, 1, r))
		for e, s := range shares[r] {
			if s >= 0 && !(o.Shares && s == 0) && e >= o.First && e < o.First+held {
				rowsOf[e] = append(rowsOf[e], r)
			}
		}
	}
	for e, of := range rowsOf {
		if len(of) == 0 {
			continue
		}
		p := expert{d, a, e - o.First, o}
		gates, ups := p.product(graph.ExpertGate, selectRows(x, of)), p.product(graph.ExpertUp, selectRows(x, of))
		exact := make([][]float32, len(gates)) // gated, before it is rounded
		for i := range gates {
			adapt(graph.ExpertGate, e, of[i], nil, gates[i])
			adapt(graph.ExpertUp, e, of[i], nil, ups[i])
			for j := range gates[i] {
				gates[i][j] = d.gate(o, gates[i][j], ups[i][j])
			}
			exact[i] = slices.Clone(gates[i])
			d.round(o.ActType, gates[i])
		}
		for i, y := range p.product(graph.ExpertDown, gates) {
			adapt(graph.ExpertDown, e, of[i], exact[i], y)
			for j := range y {
				out[of[i]][j] += shares[of[i]][e] * float64(y[j])
			}
			d.flops(2 * len(y))
		}
	}
	for r := range out {
		y := make([]float32, len(out[r]))
		for i := range y {
			y[i] = float32(out[r][i])
		}
		d.write(n, a, 0, r, y)
	}
}

// selectRows is some of the rows.
func selectRows(rows [][]float32, of []int) [][]float32 {
	var some [][]float32
	for _, r := range of {
		some = append(some, rows[r])
	}
	return some
}

// route is each expert's share of a row; -1: it has none.
func (d *Device) route(o graph.MoE, scores []float32) []float64 {
	share := make([]float64, o.Experts)
	for e := range share {
		share[e] = -1
	}
	largest := scores[0]
	for _, s := range scores {
		largest = max(largest, s)
	}
	d.flops(o.Experts)
	var chosen, all float64
	for range o.TopK {
		best := -1
		for e, s := range scores {
			if share[e] < 0 && (best < 0 || s > scores[best]) {
				best = e
			}
		}
		share[best] = math.Exp(float64(scores[best] - largest))
		if o.Shares {
			share[best] = float64(scores[best])
		}
		chosen += share[best]
	}
	if o.Shares {
		return share
	}
	for _, s := range scores {
		all += math.Exp(float64(s - largest))
	}
	if o.NoRenorm {
		chosen = all
		d.flops(2*o.Experts + o.TopK)
	} else {
		d.flops(3 * o.TopK)
	}
	for e := range share {
		if share[e] >= 0 {
			share[e] /= chosen
		}
	}
	return share
}

// gate is fn(gate) × up, of an expert's two branches.
func (d *Device) gate(o graph.MoE, gate, up float32) float32 {
	if o.Clamp == 0 {
		d.flops(1)
		return float32(d.apply(o.Fn, gate) * float64(up))
	}
	d.flops(10)
	g, u := min(float64(gate), o.Clamp), min(max(float64(up), -o.Clamp), o.Clamp)
	return float32((u + 1) * g / (1 + math.Exp(-graph.SwiGLUAlpha*g)))
}

// round rounds what an expert's last product reads.
func (d *Device) round(to graph.Type, x []float32) {
	switch to {
	case graph.BF16:
		roundBF16(x)
	case graph.Q8:
		row := make([]byte, graph.Q8.RowBytes(len(x)))
		d.storeQ8(row, x)
		loadQ8(x, row)
	}
}

// expert is one of a node's.
type expert struct {
	d      *Device
	a      backend.Args
	number int
	o      graph.MoE
}

// product multiplies rows with one of the expert's matrices and adds its bias.
func (p expert) product(which int, x [][]float32) [][]float32 {
	d := p.d
	y := make([][]float32, len(x))
	rows := p.a.Weights[which].(weight)[p.number].Rows
	for o := range rows {
		w := d.weightRow(p.a, which, p.number*rows+o)
		for r := range x {
			var sum float64
			for i := range w {
				sum += float64(x[r][i]) * float64(w[i])
			}
			d.flops(2 * len(w))
			y[r] = append(y[r], float32(sum))
		}
	}
	if p.o.Biased && !(which == graph.ExpertDown && p.o.NoDownBias) {
		bias := d.weightRow(p.a, which+graph.ExpertMatrices, p.number)
		for r := range y {
			for i := range bias {
				y[r][i] += bias[i]
			}
			d.flops(len(bias))
		}
	}
	return y
}
