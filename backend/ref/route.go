package ref

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// route makes each expert's share of a row.
func route(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.Route)
	var bias []float32
	if len(n.Weights) == 1 {
		bias = d.weightRow(a, 0, 0)
	}
	for r := range d.rows(n) {
		if o.Mixer != 0 {
			d.write(n, a, 0, r, d.mix(o, d.read(n, a, 0, r)))
			continue
		}
		p := d.probabilities(o, d.read(n, a, 0, r))
		by := make([]float64, len(p)) // what experts are chosen by
		copy(by, p)
		for e := range bias {
			by[e] += float64(bias[e])
		}
		d.flops(len(bias))
		if o.Groups > 0 {
			maskGroups(o, by)
			d.flops(len(by))
		}
		d.flops(len(by))
		out := make([]float32, len(p))
		var sum float64
		chosen := best(by, o.TopK)
		for _, e := range chosen {
			sum += p[e]
		}
		for _, e := range chosen {
			share := p[e]
			if !o.NoRenorm {
				share /= sum
				d.flops(2)
			}
			if o.Scale != 0 {
				share *= o.Scale
				d.flops(1)
			}
			out[e] = float32(share)
		}
		d.write(n, a, 0, r, out)
	}
}

// probabilities is softmax over scores, or their sigmoids.
func (d *Device) probabilities(o graph.Route, scores []float32) []float64 {
	p := make([]float64, len(scores))
	if o.Sigmoid {
		for e, s := range scores {
			p[e] = 1 / (1 + math.Exp(-float64(s)))
		}
		d.flops(3 * len(p)) // exponential, sum, division
		return p
	}
	largest := math.Inf(-1)
	for _, s := range scores {
		largest = max(largest, float64(s))
	}
	var sum float64
	for e, s := range scores {
		p[e] = math.Exp(float64(s) - largest)
		sum += p[e]
	}
	for e := range p {
		p[e] /= sum
	}
	d.flops(4 * len(p)) // maximum, exponential, sum, division
	return p
}

// mix is the shares of SparseMixer: experts one after the other.
func (d *Device) mix(o graph.Route, scores []float32) []float32 {
	shares := make([]float32, len(scores))
	var left []int
	for e := range scores {
		left = append(left, e)
	}
	for range o.TopK {
		best := left[0]
		for _, e := range left {
			if scores[e] > scores[best] {
				best = e
			}
		}
		var sum float64
		most := float64(scores[best])
		for _, e := range left {
			if s := float64(scores[e]); (most-s)/max(math.Abs(s), most) <= o.Mixer {
				sum += math.Exp(s - most)
			}
		}
		shares[best] = float32(1 / sum)
		left = slices.DeleteFunc(left, func(e int) bool { return e == best })
		d.flops(7*len(scores) + 1)
	}
	return shares
}

// maskGroups sets what experts outside the best groups are chosen by to 0.
func maskGroups(o graph.Route, by []float64) {
	size := len(by) / o.Groups
	of := make([]float64, o.Groups)
	for g := range of {
		group, take := by[g*size:(g+1)*size], 1
		if o.BestTwo {
			take = 2
		}
		for _, e := range best(group, take) {
			of[g] += group[e]
		}
	}
	kept := make([]bool, o.Groups)
	for _, g := range best(of, o.TopGroups) {
		kept[g] = true
	}
	for e := range by {
		if !kept[e/size] {
			by[e] = 0
		}
	}
}

// best is where the k largest numbers are, the largest first; of equal ones the first.
func best(x []float64, k int) []int {
	var at []int
	taken := make([]bool, len(x))
	for range k {
		most := -1
		for i, v := range x {
			if !taken[i] && (most < 0 || v > x[most]) {
				most = i
			}
		}
		taken[most] = true
		at = append(at, most)
	}
	return at
}

// gateRows is x × sigmoid(largest gate), row by row.
func gateRows(d *Device, n *graph.Node, a backend.Args) {
	for r := range d.rows(n) {
		x, gate := d.read(n, a, 0, r), d.read(n, a, 1, r)
		by := 1 / (1 + math.Exp(-float64(slices.Max(gate))))
		for i := range x {
			x[i] = float32(float64(x[i]) * by)
		}
		d.flops(len(x) + 2 + len(gate)) // products; exponential, sum, division; comparisons
		d.write(n, a, 0, r, x)
	}
}
