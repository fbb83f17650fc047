package cpu

import (
	"math"
	"sort"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// bindAngles computes cosines and sines once a step. The frequencies of a rotation that does not depend on the
// sequence's length are computed once for all.
func bindAngles(_ vec.Ops, n *graph.Node, a backend.Args) body {
	r := n.Op.(graph.Angles).Rotation
	out := floats(a.Out[0])
	fixed, magnitude := r.Frequencies(0)
	axes := make([]int, r.Dim/2)
	for i := range axes {
		axes[i] = r.PositionAxis(i)
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.Tokens), 1)
		perPosition, scale := fixed, magnitude
		known := int32(-1) // length that perPosition was computed for
		for row := from; row < to; row++ {
			if r.Varies() {
				if length := b.RopeLen[sequenceOf(b, row)]; length != known {
					perPosition, scale = r.Frequencies(int(length))
					known = length
				}
			}
			y := out[row*r.Dim : (row+1)*r.Dim]
			for i, f := range perPosition {
				sin, cos := math.Sincos(float64(float32(b.Position(axes[i], row)) * f))
				y[2*i], y[2*i+1] = float32(cos)*scale, float32(sin)*scale
			}
		}
	}
}

// sequenceOf is the sequence that a row belongs to.
func sequenceOf(b *backend.Batch, row int) int {
	return sort.Search(b.Seqs(), func(s int) bool { return int(b.QStart[s+1]) > row })
}

// bindRoPE rotates the pairs of every head; a worker takes whole rows.
func bindRoPE(v vec.Ops, n *graph.Node, a backend.Args) body {
	o, axis := n.Op.(graph.RoPE), n.In[0].Axis
	in, cosSin, out, width := floats(a.In[0]), floats(a.In[1]), floats(a.Out[0]), axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for r := from; r < to; r++ {
			angles := cosSin[r*o.Dim : (r+1)*o.Dim]
			for at := r * width; at < (r+1)*width; at += axis.Size {
				copy(out[at:at+o.From], in[at:at+o.From])
				x, y := in[at+o.From:at+axis.Size], out[at+o.From:at+axis.Size]
				if o.Pairing == graph.HalfPairs {
					v.RotateHalf(y, x, angles)
				} else {
					v.RotateAdjacent(y, x, angles)
				}
				copy(y[o.Dim:], x[o.Dim:])
			}
		}
	}
}
