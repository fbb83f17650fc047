package ref

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// meanSquare is the mean of the squares of numbers.
func meanSquare(x []float32) (mean float64) {
	for _, v := range x {
		mean += float64(v) * float64(v)
	}
	return mean / float64(len(x))
}

// expandStreams makes streams of one and of others that are brought to its magnitude.
func expandStreams(d *Device, n *graph.Node, a backend.Args) {
	eps := n.Op.(graph.ExpandStreams).Eps
	for r := range d.rows(n) {
		x, y := d.read(n, a, 0, r), d.read(n, a, 1, r)
		size := len(x)
		magnitude := math.Sqrt(meanSquare(x))
		for at := 0; at < len(y); at += size {
			by := magnitude / math.Sqrt(max(meanSquare(y[at:at+size]), eps))
			for i := range size {
				y[at+i] = float32(float64(y[at+i]) * by)
			}
			d.flops(4)
		}
		d.flops(2*size + 2 + 3*len(y))
		d.write(n, a, 0, r, append(x, y...))
	}
}

// mixStreams adds a mixture of all streams to each.
func mixStreams(d *Device, n *graph.Node, a backend.Args) {
	streams, size := n.In[0].Axis.Count, n.In[0].Axis.Size
	for r := range d.rows(n) {
		x, c := d.read(n, a, 0, r), d.read(n, a, 1, r)
		y := make([]float32, len(x))
		for j := range streams {
			for k := range size {
				sum := float64(x[j*size+k])
				for i := range streams {
					sum += float64(c[j*streams+i]) * float64(x[i*size+k])
				}
				d.flops(2 * streams)
				y[j*size+k] = float32(sum)
			}
		}
		d.write(n, a, 0, r, y)
	}
}

// addToStreams adds a row to streams, times a coefficient of each or to those from one on.
func addToStreams(d *Device, n *graph.Node, a backend.Args) {
	from, streams, size := n.Op.(graph.AddToStreams).From, n.In[0].Axis.Count, n.In[0].Axis.Size
	for r := range d.rows(n) {
		x, y := d.read(n, a, 0, r), d.read(n, a, 1, r)
		var c []float32
		if len(n.In) == 3 {
			c = d.read(n, a, 2, r)
		}
		for j := from; j < streams; j++ {
			by := 1.0
			if c != nil {
				by += float64(c[j])
				d.flops(1 + size)
			}
			for k := range size {
				x[j*size+k] = float32(float64(x[j*size+k]) + by*float64(y[k]))
			}
			d.flops(size)
		}
		d.write(n, a, 0, r, x)
	}
}

// meanStreams is the mean of streams.
func meanStreams(d *Device, n *graph.Node, a backend.Args) {
	streams, size := n.In[0].Axis.Count, n.In[0].Axis.Size
	for r := range d.rows(n) {
		x, y := d.read(n, a, 0, r), make([]float32, size)
		for k := range y {
			var sum float64
			for j := range streams {
				sum += float64(x[j*size+k])
			}
			y[k] = float32(sum / float64(streams))
			d.flops(streams)
		}
		d.write(n, a, 0, r, y)
	}
}

// columns is a part of each row.
func columns(d *Device, n *graph.Node, a backend.Args) {
	o, size := n.Op.(graph.Columns), n.Out[0].Axis.Len()
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)[o.From : o.From+size]
		d.counted.ValueRead += n.Out[0].RowBytes() - n.In[0].RowBytes() // of the rest nothing need be read
		d.write(n, a, 0, r, x)
	}
}

// scaleColumns multiplies a row by a weight, number by number.
func scaleColumns(d *Device, n *graph.Node, a backend.Args) {
	w := d.weightRow(a, 0, 0)
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		for i := range x {
			x[i] *= w[i%len(w)]
		}
		d.flops(len(x))
		d.write(n, a, 0, r, x)
	}
}

// gaussianTopK is what exceeds the threshold of a row.
func gaussianTopK(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.GaussianTopK)
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		if o.Of > 0 {
			sums, of := d.read(n, a, 1, r), float64(o.Of)
			mean := float64(sums[0]) / of
			d.above(x, mean+o.Deviations*math.Sqrt(max(0, float64(sums[1])/of-mean*mean)))
			d.flops(7)
			d.write(n, a, 0, r, x)
			continue
		}
		mean, variance := moments(x)
		d.above(x, mean+o.Deviations*math.Sqrt(variance))
		d.flops(4*len(x) + 5)
		d.write(n, a, 0, r, x)
	}
}

// above leaves of numbers what exceeds a threshold.
func (d *Device) above(x []float32, threshold float64) {
	for i := range x {
		x[i] = float32(max(0, float64(x[i])-threshold))
	}
	d.flops(2 * len(x))
}
