package quantize

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ridge-llm/ridge/internal/quantize/dense"
)

// hadamard turns vectors of n numbers by an orthogonal matrix: random signs, then a Hadamard matrix over √n, whose numbers are all of one
// magnitude, so that what is large in one number is spread over all. Where there is none of order n that is made of 2^k and an order of Paley's,
// it turns runs of the largest power of two that divides n, each by itself.
type hadamard struct {
	n     int
	signs []float64
	runs  int // of order n/runs
	paley [][]float64
	two   int // 2^k; n = runs · len(paley) · two
}

// leastRun is the least order that spreads anything.
const leastRun = 8

// newHadamard makes one of an order. The signs are always the same.
func newHadamard(n int) (*hadamard, error) {
	h := &hadamard{n: n, runs: 1, paley: [][]float64{{1}}, two: 1, signs: make([]float64, n)}
	for n%(2*h.two) == 0 {
		h.two *= 2
	}
	if odd := n / h.two; odd > 1 {
		h.runs = odd
		for order := 4 * odd; n%order == 0; order *= 2 { // orders are 1, 2 and multiples of 4
			if m := paley(order); m != nil {
				h.runs, h.paley, h.two = 1, m, n/order
				break
			}
		}
	}
	if n/h.runs < leastRun {
		return nil, fmt.Errorf("there is no Hadamard matrix for rows of %d numbers", n)
	}
	rng := rand.New(rand.NewPCG(17, uint64(n)))
	for i := range h.signs {
		h.signs[i] = float64(2*rng.IntN(2)-1) / math.Sqrt(float64(n/h.runs))
	}
	return h, nil
}

// turn turns n numbers; scratch has room for as many.
func (h *hadamard) turn(x, scratch []float64) {
	for i, s := range h.signs {
		x[i] *= s
	}
	order := h.n / h.runs
	for at := 0; at < h.n; at += order {
		run := x[at : at+order]
		for b := 0; b < order; b += h.two {
			walsh(run[b : b+h.two])
		}
		if len(h.paley) == 1 {
			continue
		}
		sums := scratch[:order]
		clear(sums)
		for i, row := range h.paley {
			to := sums[i*h.two : (i+1)*h.two]
			for k, sign := range row {
				for c, v := range run[k*h.two : (k+1)*h.two] {
					to[c] += sign * v
				}
			}
		}
		copy(run, sums)
	}
}

// walsh multiplies by the Hadamard matrix of an order that is a power of two.
func walsh(x []float64) {
	for half := 1; half < len(x); half *= 2 {
		for at := 0; at < len(x); at += 2 * half {
			a, b := x[at:at+half], x[at+half:at+2*half]
			for i, u := range a {
				v := b[i]
				a[i], b[i] = u+v, u-v
			}
		}
	}
}

// paley is a Hadamard matrix of an order q+1 or 2(q+1) for a prime q (Paley, 1933); nil: there is none.
func paley(order int) [][]float64 {
	switch q := order - 1; {
	case q%4 == 3 && prime(q):
		h := conference(q)
		for i := range h {
			if h[i][i] = 1; i > 0 {
				h[i][0] = -1
			}
		}
		return h
	case order%2 == 0 && (order/2-1)%4 == 1 && prime(order/2-1):
		c := conference(order/2 - 1)
		h := make([][]float64, order)
		for i := range h {
			h[i] = make([]float64, order)
			for k := range h[i] {
				v := c[i/2][k/2]
				if i%2 == 1 && k%2 == 1 {
					v = -v
				}
				if i/2 == k/2 { // the diagonal, which is 0 in c
					v = 1
					if i%2 == 1 || k%2 == 1 {
						v = -1
					}
				}
				h[i][k] = v
			}
		}
		return h
	}
	return nil
}

// conference is the matrix of order q+1 with 0 on the diagonal, 1 in the rest of the first row and column, and whether i−k is a square modulo q, as
// 1 or −1, elsewhere.
func conference(q int) [][]float64 {
	square := make([]float64, q)
	for i := range square {
		square[i] = -1
	}
	for i := range q {
		square[i*i%q] = 1
	}
	square[0] = 0
	c := make([][]float64, q+1)
	for i := range c {
		c[i] = make([]float64, q+1)
		for k := range c[i] {
			switch {
			case i > 0 && k > 0:
				c[i][k] = square[(i-k+q)%q]
			case i != k:
				c[i][k] = 1
			}
		}
	}
	return c
}

func prime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

// columns turns the columns of some rows of a matrix x [·, cols]: each run of n numbers of a row.
func (h *hadamard) columns(x []float32, cols int, rows []int) {
	dense.Each(len(rows), 1, func(from, to int) {
		v, scratch := make([]float64, h.n), make([]float64, h.n)
		for _, r := range rows[from:to] {
			for at := r * cols; at < (r+1)*cols; at += h.n {
				part := x[at : at+h.n]
				for i, a := range part {
					v[i] = float64(a)
				}
				h.turn(v, scratch)
				for i, a := range v {
					part[i] = float32(a)
				}
			}
		}
	})
}

// rows turns some rows of a matrix x [·, cols] among themselves: each run of n of them.
func (h *hadamard) rows(x []float32, cols int, rows []int) {
	const wide = 16 // columns that are gathered together
	dense.Each(cols, wide, func(from, to int) {
		v, scratch := make([]float64, wide*h.n), make([]float64, h.n)
		for at := 0; at < len(rows); at += h.n {
			run := rows[at : at+h.n]
			for c := from; c < to; c += wide {
				n := min(wide, to-c)
				for i, r := range run {
					for k, a := range x[r*cols+c:][:n] {
						v[k*h.n+i] = float64(a)
					}
				}
				for k := range n {
					h.turn(v[k*h.n:(k+1)*h.n], scratch)
				}
				for i, r := range run {
					for k := range n {
						x[r*cols+c+k] = float32(v[k*h.n+i])
					}
				}
			}
		}
	})
}
