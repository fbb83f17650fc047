package ref

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// apply is one of the pointwise functions, and counts it.
func (d *Device) apply(fn graph.Fn, v float32) float64 {
	x := float64(v)
	switch fn {
	case graph.Silu:
		d.flops(4) // negation, exponential, addition, division
		return x / (1 + math.Exp(-x))
	case graph.GeluTanh:
		d.flops(9) // cube 2, coefficient, sum, coefficient, tanh, sum, half, product
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case graph.GeluErf:
		d.flops(4) // coefficient, erf, sum, product with half folded in
		return 0.5 * x * (1 + math.Erf(x/math.Sqrt2))
	case graph.Relu2:
		d.flops(2) // maximum, square
		return max(x, 0) * max(x, 0)
	case graph.Sigmoid:
		d.flops(4) // negation, exponential, addition, division
		return 1 / (1 + math.Exp(-x))
	case graph.Identity:
		return x
	default:
		d.flops(1)
		return max(x, 0)
	}
}

// act applies a function.
func act(d *Device, n *graph.Node, a backend.Args) {
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		for i := range x {
			x[i] = float32(d.apply(n.Op.(graph.Act).Fn, x[i]))
		}
		d.write(n, a, 0, r, x)
	}
}

// actMul is fn(gate) × up.
func actMul(d *Device, n *graph.Node, a backend.Args) {
	for r := range d.rows(n) {
		gate, up := d.read(n, a, 0, r), d.read(n, a, 1, r)
		for i := range gate {
			gate[i] = float32(d.apply(n.Op.(graph.ActMul).Fn, gate[i]) * float64(up[i]))
			d.flops(1)
		}
		d.write(n, a, 0, r, gate)
	}
}

// add sums two values.
func add(d *Device, n *graph.Node, a backend.Args) {
	for r := range d.rows(n) {
		x, y := d.read(n, a, 0, r), d.read(n, a, 1, r)
		for i := range x {
			x[i] += y[i]
		}
		d.flops(len(x))
		d.write(n, a, 0, r, x)
	}
}

// softcap is cap × tanh(x / cap).
func softcap(d *Device, n *graph.Node, a backend.Args) {
	limit := n.Op.(graph.Softcap).Cap
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		for i := range x {
			x[i] = float32(limit * math.Tanh(float64(x[i])/limit))
			d.flops(3)
		}
		d.write(n, a, 0, r, x)
	}
}

// scale multiplies rows by a factor each.
func scale(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.Scale)
	for r := range d.rows(n) {
		x, by := d.read(n, a, 0, r), o.By
		if o.Growth.Every != 0 {
			by *= o.Growth.At(int(d.batch.Positions[r]))
			d.flops(7)
		}
		for i := range x {
			x[i] = float32(float64(x[i]) * by)
		}
		d.flops(len(x))
		d.write(n, a, 0, r, x)
	}
}

// xielu applies a function with coefficients.
func xielu(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.XIELU)
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		for i, v := range x {
			v := float64(v)
			y := o.Positive*v*v + o.Beta*v
			if v <= 0 {
				y = o.Negative*(math.Expm1(min(v, o.Eps))-v) + o.Beta*v
			}
			x[i] = float32(y)
		}
		d.flops(7 * len(x))
		d.write(n, a, 0, r, x)
	}
}
