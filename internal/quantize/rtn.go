package quantize

import "github.com/ridge-llm/ridge/internal/quantize/dense"

// nearest rounds a matrix w [rows, cols] to nearest, group by group. With clip the range of a group is chosen for the least squared error, each
// counted by weights [cols], if there are any; else it is that of its numbers.
func nearest(g Grid, w []float32, rows, cols int, clip bool, weights []float32) *Matrix {
	m := newMatrix(g, rows, cols)
	group := g.group(cols)
	dense.Each(rows, 1, func(from, to int) {
		for r := from; r < to; r++ {
			for k := 0; k < cols; k += group {
				x := w[r*cols+k : r*cols+k+group]
				s := g.fit(x, 1)
				switch {
				case clip && weights != nil:
					s = g.search(x, weights[k:k+group])
				case clip:
					s = g.search(x, nil)
				}
				m.steps[r*m.groups()+k/group] = s
				for i, v := range x {
					m.codes[r*cols+k+i] = g.code(s, v)
				}
			}
		}
	})
	return m
}
