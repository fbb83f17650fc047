package ref

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// rmsNorm normalises whole rows or each of their groups.
func rmsNorm(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.RMSNorm)
	w := d.weightRow(a, 0, 0)
	size := n.In[0].Axis.Len()
	if o.PerGroup {
		size = n.In[0].Axis.Size
	} else if o.Groups > 0 {
		size /= o.Groups
	}
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		for g := 0; g < len(x); g += size {
			group, w := x[g:g+size], w[g%len(w):][:size]
			squares, of := 0.0, float64(len(w))
			if o.Of > 0 { // of shards of a row
				squares, of = float64(d.read(n, a, 1, r)[0]), float64(o.Of)
			} else {
				for _, v := range group {
					squares += float64(v) * float64(v)
				}
				d.flops(2 * len(w))
			}
			scale := 1 / math.Sqrt(squares/of+o.Eps)
			for i := range group {
				group[i] = float32(float64(group[i]) * scale * float64(w[i]))
			}
			d.flops(2*len(w) + 4) // scale, weight; mean, epsilon, root, division
		}
		d.write(n, a, 0, r, x)
	}
}

// layerNorm centres and normalises rows.
func layerNorm(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.LayerNorm)
	w := d.weightRow(a, 0, 0)
	var bias []float32
	if len(n.Weights) == 2 {
		bias = d.weightRow(a, 1, 0)
	}
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		mean, variance := moments(x)
		scale := 1 / math.Sqrt(variance+o.Eps)
		for i := range x {
			y := (float64(x[i]) - mean) * scale * float64(w[i])
			if bias != nil {
				y += float64(bias[i])
			}
			x[i] = float32(y)
		}
		d.flops((5+len(n.Weights))*len(x) + 5) // sum, centre, square, sum, scale, weight, bias; two means, epsilon, root, division
		d.write(n, a, 0, r, x)
	}
}

// moments are the mean of numbers and their mean square distance from it.
func moments(x []float32) (mean, variance float64) {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
	}
	mean = sum / float64(len(x))
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, squares / float64(len(x))
}

// rowSums is the sum of each row's squares, behind that of its numbers if it is wanted.
func rowSums(d *Device, n *graph.Node, a backend.Args) {
	for r := range d.rows(n) {
		var sum, squares float64
		x := d.read(n, a, 0, r)
		for _, v := range x {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		y := []float32{float32(sum), float32(squares)}
		d.flops((1 + n.Out[0].Axis.Len()) * len(x))
		d.write(n, a, 0, r, y[2-n.Out[0].Axis.Len():])
	}
}
