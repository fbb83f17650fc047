package ref

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// addOutliers adds large numbers of rows times their columns of the matrix.
func addOutliers(d *Device, n *graph.Node, a backend.Args) {
	threshold := n.Op.(graph.AddOutliers).Threshold
	matrix := a.Weights[0].(weight)[0]
	w := make([]float32, matrix.Cols)
	rows := d.rows(n)
	large, y := make([][]float32, rows), make([][]float32, rows)
	for r := range rows {
		y[r], large[r] = d.read(n, a, 0, r), d.read(n, a, 1, r)
		for i, v := range large[r] {
			if math.Abs(float64(v)) < threshold {
				large[r][i] = 0
			}
		}
		d.flops(2 * len(w))
	}
	for o := range matrix.Rows {
		quant.Decode(matrix.Format, w, matrix.Row(o))
		for r, x := range large {
			sum := float64(y[r][o])
			for i, v := range x {
				if v != 0 {
					sum += float64(v) * float64(w[i])
				}
			}
			y[r][o] = float32(sum)
		}
	}
	for r := range rows {
		d.write(n, a, 0, r, y[r])
	}
}
