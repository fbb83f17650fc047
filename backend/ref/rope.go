package ref

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// angles computes cosine and sine of every pair at every token's position.
func angles(d *Device, n *graph.Node, a backend.Args) {
	r := n.Op.(graph.Angles).Rotation
	for s := range d.batch.Seqs() {
		perPosition, magnitude := r.Frequencies(int(d.batch.RopeLen[s]))
		for row := d.batch.QStart[s]; row < d.batch.QStart[s+1]; row++ {
			y := make([]float32, r.Dim)
			for i, f := range perPosition {
				angle := float64(float32(d.batch.Position(r.PositionAxis(i), int(row))) * f)
				y[2*i] = float32(math.Cos(angle)) * magnitude
				y[2*i+1] = float32(math.Sin(angle)) * magnitude
			}
			d.flops(5 * len(perPosition)) // angle, cosine, sine, two magnitudes
			d.write(n, a, 0, int(row), y)
		}
	}
}

// rope rotates the pairs of every head.
func rope(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.RoPE)
	axis := n.In[0].Axis
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		cosSin := d.read(n, a, 1, r)
		for h := range axis.Count {
			head := x[h*axis.Size+o.From : (h+1)*axis.Size]
			for i := range o.Dim / 2 {
				j, k := i, i+o.Dim/2
				if o.Pairing == graph.AdjacentPairs {
					j, k = 2*i, 2*i+1
				}
				cos, sin := cosSin[2*i], cosSin[2*i+1]
				head[j], head[k] = head[j]*cos-head[k]*sin, head[k]*cos+head[j]*sin
				d.flops(6)
			}
		}
		d.write(n, a, 0, r, x)
	}
}
