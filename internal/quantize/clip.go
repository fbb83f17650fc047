package quantize

import (
	"math"

	"github.com/ridge-llm/ridge/internal/quantize/dense"
)

// clipPasses is how often the ranges of all groups are chosen.
const clipPasses = 2

// maxClipGroup is the widest group whose columns' products are looked at.
const maxClipGroup = 256

// clipped rounds to nearest with the range of each group chosen for the least error over the inputs, together with that of the other groups as they
// are then: their columns' inputs are correlated.
func clipped(e *dense.Engine, g Grid, w []float32, rows, cols int, s *stats) *Matrix {
	m := newMatrix(g, rows, cols)
	group := g.group(cols)
	if group > maxClipGroup {
		return nearest(g, w, rows, cols, true, s.diagonal())
	}
	dense.Each(rows, 1, func(from, to int) {
		c := newClipping(e, m, w, s, from, to-from)
		for range clipPasses {
			for k := 0; k < cols; k += group {
				c.groups(k)
			}
		}
	})
	return m
}

// clipping chooses the ranges of some rows' groups.
type clipping struct {
	engine      *dense.Engine
	m           *Matrix
	w           []float32
	s           *stats
	from, n     int       // rows
	off, slope  []float32 // [n, cols]: what the numbers are off by, and that times the Hessian, half of the error's slope
	update      []float32 // [n, cols]
	tried, loss []float32 // [n, clips, group]: what the numbers would be off by, and that times the group's part of the Hessian
	change      []float32 // [n, group]
	square      []float32 // [group, group], of the Hessian
	columns     []float32 // [cols, group], likewise
	best        []choice  // [n]
}

// choice is a step, with the parts of the range of a group's numbers lo to hi that it spans, and its error.
type choice struct {
	step
	lo, hi, low, high float32
	loss              float64
}

func newClipping(e *dense.Engine, m *Matrix, w []float32, s *stats, from, n int) *clipping {
	cols, group := m.Cols, m.group(m.Cols)
	floats := func(n int) []float32 { return make([]float32, n) }
	return &clipping{
		engine: e, m: m, w: w, s: s, from: from, n: n, off: floats(n * cols), slope: floats(n * cols), update: floats(n * cols), best: make([]choice, n),
		tried: floats(n * len(clips) * group), loss: floats(n * len(clips) * group), change: floats(n * group), square: floats(group * group), columns: floats(cols * group),
	}
}

// groups chooses the ranges of the groups of columns from k on.
func (c *clipping) groups(k int) {
	cols, group := c.m.Cols, c.m.group(c.m.Cols)
	for i := range group {
		copy(c.square[i*group:(i+1)*group], c.s.hessian[(k+i)*cols+k:])
	}
	for i := range cols { // the Hessian is its own transpose
		copy(c.columns[i*group:(i+1)*group], c.s.hessian[i*cols+k:])
	}
	for r := range c.n {
		b := choice{low: 1, high: 1, loss: math.Inf(1)}
		for _, v := range c.w[(c.from+r)*cols+k:][:group] {
			b.lo, b.hi = min(b.lo, v), max(b.hi, v)
		}
		c.best[r] = b
		copy(c.change[r*group:(r+1)*group], c.off[r*cols+k:])
	}
	// The slope of the other groups' errors alone.
	c.engine.Mul(c.loss, group, c.change, c.n, c.square, group, group)
	for r := range c.n {
		for i, v := range c.loss[r*group : (r+1)*group] {
			c.slope[r*cols+k+i] -= v
		}
	}
	c.try(k, func(b choice, part float32) (low, high float32) { return part, part })
	if !c.m.Symmetric { // each end by itself
		c.try(k, func(b choice, part float32) (low, high float32) { return part, b.high })
		c.try(k, func(b choice, part float32) (low, high float32) { return b.low, part })
	}
	for r := range c.n {
		st := c.best[r].step
		c.m.steps[(c.from+r)*c.m.groups()+k/group] = st
		at := (c.from+r)*cols + k
		for i, v := range c.w[at:][:group] {
			code := c.m.code(st, v)
			c.m.codes[at+i] = code
			c.off[r*cols+k+i] = st.value(code) - v
		}
	}
	// The slope of the group's own error was taken off for its columns, and stands for the others.
	for r := range c.n {
		for i, v := range c.off[r*cols+k:][:group] {
			c.change[r*group+i] = v - c.change[r*group+i]
		}
	}
	c.engine.Mul(c.update, cols, c.change, c.n, c.columns, cols, group)
	for r := range c.n {
		now := c.off[r*cols+k:][:group]
		for i := range group {
			c.update[r*cols+k+i] = product(c.square[i*group:], now)
		}
		for i, v := range c.update[r*cols:][:cols] {
			c.slope[r*cols+i] += v
		}
	}
}

// try looks, for each row, whether a step that spans other parts of the range of the group from k on makes a smaller error.
func (c *clipping) try(k int, parts func(b choice, part float32) (low, high float32)) {
	cols, group := c.m.Cols, c.m.group(c.m.Cols)
	each := len(clips) * group
	for r, b := range c.best {
		x := c.w[(c.from+r)*cols+k:][:group]
		for t, part := range clips {
			low, high := parts(b, part)
			st := c.m.span(b.lo*low, b.hi*high)
			d := c.tried[r*each+t*group:][:group]
			for i, v := range x {
				d[i] = st.value(c.m.code(st, v)) - v
			}
		}
	}
	c.engine.Mul(c.loss, group, c.tried, c.n*len(clips), c.square, group, group)
	for r, b := range c.best {
		slope := c.slope[r*cols+k:][:group]
		best := b
		for t, part := range clips {
			sum := 0.0
			at := r*each + t*group
			for i, v := range c.tried[at : at+group] {
				sum += float64(v) * float64(c.loss[at+i]+2*slope[i])
			}
			if sum < best.loss {
				best.loss = sum
				best.low, best.high = parts(b, part)
				best.step = c.m.span(b.lo*best.low, b.hi*best.high)
			}
		}
		c.best[r] = best
	}
}

// product is Σ a·b over the numbers of b.
func product(a, b []float32) float32 {
	sum := float32(0)
	for i, v := range b {
		sum += a[i] * v
	}
	return sum
}
