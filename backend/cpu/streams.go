package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// streamKernel is the kernel of an op on rows of several streams or parts of rows; nil if it is none.
func streamKernel(op graph.Op) (string, bind) {
	switch op.(type) {
	case graph.ExpandStreams:
		return "expand streams", simple(bindExpandStreams)
	case graph.MixStreams:
		return "mix streams", simple(bindMixStreams)
	case graph.AddToStreams:
		return "add to streams", simple(bindAddToStreams)
	case graph.MeanStreams:
		return "mean of streams", simple(bindMeanStreams)
	case graph.Columns:
		return "columns", simple(bindColumns)
	case graph.ScaleColumns:
		return "scale columns", simple(bindScaleColumns)
	case graph.GaussianTopK:
		return "gaussian top-k", simple(bindGaussianTopK)
	case graph.RoundRows:
		return "round rows", simple(bindRoundRows)
	case graph.RowSums:
		return "row sums", simple(bindRowSums)
	}
	return "", nil
}

// eachRow lets every worker compute whole rows.
func eachRow(n *graph.Node, compute func(row int)) body {
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for r := from; r < to; r++ {
			compute(r)
		}
	}
}

// bindExpandStreams makes streams of one and of others that are brought to its magnitude.
func bindExpandStreams(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, y, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0])
	size, streams, eps := n.Out[0].Axis.Size, n.Out[0].Axis.Count, n.Op.(graph.ExpandStreams).Eps
	return eachRow(n, func(r int) {
		first := x[r*size : (r+1)*size]
		to := out[r*streams*size:][:streams*size]
		copy(to, first)
		magnitude := math.Sqrt(float64(v.Dot(first, first)) / float64(size))
		for j := range streams - 1 {
			other := y[(r*(streams-1)+j)*size:][:size]
			square := max(float64(v.Dot(other, other))/float64(size), eps)
			v.Multiply(to[(j+1)*size:][:size], other, float32(magnitude/math.Sqrt(square)))
		}
	})
}

// bindMixStreams adds a mixture of all streams to each.
func bindMixStreams(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, c, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0])
	size, streams := n.Out[0].Axis.Size, n.Out[0].Axis.Count
	return eachRow(n, func(r int) {
		from, to := x[r*streams*size:][:streams*size], out[r*streams*size:][:streams*size]
		by := c[r*streams*streams:]
		for j := range streams {
			y := to[j*size : (j+1)*size]
			copy(y, from[j*size:])
			for i := range streams {
				v.Axpby(y, from[i*size:(i+1)*size], 1, by[j*streams+i])
			}
		}
	})
}

// bindAddToStreams adds a row to streams, times a coefficient of each or to those from one on.
func bindAddToStreams(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, y, out := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0])
	size, streams, from := n.Out[0].Axis.Size, n.Out[0].Axis.Count, n.Op.(graph.AddToStreams).From
	var c []float32
	if len(a.In) == 3 {
		c = floats(a.In[2])
	}
	return eachRow(n, func(r int) {
		copy(out[r*streams*size:][:from*size], x[r*streams*size:])
		add := y[r*size : (r+1)*size]
		for j := from; j < streams; j++ {
			at := (r*streams + j) * size
			if c == nil {
				v.Add(out[at:at+size], x[at:at+size], add)
				continue
			}
			copy(out[at:at+size], x[at:])
			v.Axpby(out[at:at+size], add, 1, 1+c[r*streams+j])
		}
	})
}

// bindMeanStreams is the mean of streams.
func bindMeanStreams(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, out := floats(a.In[0]), floats(a.Out[0])
	size, streams := n.In[0].Axis.Size, n.In[0].Axis.Count
	return eachRow(n, func(r int) {
		y := out[r*size : (r+1)*size]
		v.Multiply(y, x[r*streams*size:][:size], 1/float32(streams))
		for j := 1; j < streams; j++ {
			v.Axpby(y, x[(r*streams+j)*size:][:size], 1, 1/float32(streams))
		}
	})
}

// bindColumns is a part of each row.
func bindColumns(_ vec.Ops, n *graph.Node, a backend.Args) body {
	x, out := floats(a.In[0]), floats(a.Out[0])
	from, width, size := n.Op.(graph.Columns).From, n.In[0].Axis.Len(), n.Out[0].Axis.Len()
	return eachRow(n, func(r int) { copy(out[r*size:(r+1)*size], x[r*width+from:]) })
}

// bindScaleColumns multiplies rows by a weight, number by number.
func bindScaleColumns(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, out, weight, width := floats(a.In[0]), floats(a.Out[0]), a.Weights[0].(vector), n.Out[0].Axis.Len()
	return eachRow(n, func(r int) {
		y, from := out[r*width:(r+1)*width], x[r*width:(r+1)*width]
		if len(weight) == 1 {
			v.Multiply(y, from, weight[0])
			return
		}
		v.Scale(y, from, weight, 1)
	})
}

// bindGaussianTopK is what exceeds the threshold of a row.
func bindGaussianTopK(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, out, width := floats(a.In[0]), floats(a.Out[0]), n.Out[0].Axis.Len()
	o := n.Op.(graph.GaussianTopK)
	if o.Of > 0 { // shards of rows
		sums := floats(a.In[1])
		return eachRow(n, func(r int) {
			mean := float64(sums[2*r]) / float64(o.Of)
			above := float32(mean + o.Deviations*math.Sqrt(max(0, float64(sums[2*r+1])/float64(o.Of)-mean*mean)))
			y := out[r*width : (r+1)*width]
			for i, d := range x[r*width : (r+1)*width] {
				y[i] = max(0, d-above)
			}
		})
	}
	return eachRow(n, func(r int) {
		y := out[r*width : (r+1)*width]
		squares := v.Center(y, x[r*width:(r+1)*width])
		above := float32(o.Deviations * math.Sqrt(float64(squares)/float64(width)))
		for i, d := range y {
			y[i] = max(0, d-above)
		}
	})
}

// bindRowSums is the sum of each row's squares, behind that of its numbers if it is wanted.
func bindRowSums(v vec.Ops, n *graph.Node, a backend.Args) body {
	x, out, width, plain := floats(a.In[0]), floats(a.Out[0]), n.In[0].Axis.Len(), n.Op.(graph.RowSums).Plain
	return eachRow(n, func(r int) {
		row := x[r*width : (r+1)*width]
		squares := v.Dot(row, row)
		if !plain {
			out[r] = squares
			return
		}
		sum := float32(0)
		for _, d := range row {
			sum += d
		}
		out[2*r], out[2*r+1] = sum, squares
	})
}
