// Package dense is the linear algebra that quantisers need, on row-major matrices of float32: products by the CPU's GEMM on all cores, sums of
// outer products, and the factor of an inverse that GPTQ works with.
package dense

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// Engine multiplies with the kernels of one tier of instructions. Its methods may be called by several goroutines.
type Engine struct {
	tier    gemm.Tier
	scratch sync.Pool
}

// New takes the best tier of the processor, or the one that the environment variable RIDGE_CPU names.
func New() (*Engine, error) {
	tier, err := gemm.Choose(os.Getenv("RIDGE_CPU"))
	if err != nil {
		return nil, err
	}
	return &Engine{tier: tier, scratch: sync.Pool{New: func() any { return gemm.NewScratch() }}}, nil
}

// bytesOf is the memory of x.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// Mul sets rows of out, whose rows are ld apart, to a × bᵀ for a [m, k] and b [n, k]: out[i×ld+j] = Σ a[i,·]·b[j,·]. It computes on the
// caller's goroutine.
func (e *Engine) Mul(out []float32, ld int, a []float32, m int, b []float32, n, k int) {
	if m == 0 || n == 0 {
		return
	}
	e.mul(out, ld, gemm.FloatActs(a[:m*k], m, k), quant.F32, bytesOf(b[:n*k]), n)
}

// mul is Mul of activations and a matrix in a number format.
func (e *Engine) mul(out []float32, ld int, acts gemm.Acts, f quant.Format, b []byte, n int) {
	w, err := gemm.Packed(f, n, acts.K, b)
	if err != nil {
		panic(err) // sizes are ours
	}
	s := e.scratch.Get().(*gemm.Scratch)
	gemm.Mul(e.tier, out, ld, &w, 0, n, &acts, 0, acts.M, s)
	e.scratch.Put(s)
}

// Each calls do for ranges of [0, n), in steps of a multiple of unit, on all cores.
func Each(n, unit int, do func(from, to int)) {
	workers := runtime.GOMAXPROCS(0)
	step := max(unit, (n/(4*workers)+unit-1)/unit*unit)
	var wg sync.WaitGroup
	next := make(chan int, n/step+1)
	for from := 0; from < n; from += step {
		next <- from
	}
	close(next)
	for range workers {
		wg.Go(func() {
			for from := range next {
				do(from, min(from+step, n))
			}
		})
	}
	wg.Wait()
}

// MulAll is Mul on all cores, by ranges of a's rows.
func (e *Engine) MulAll(out []float32, ld int, a []float32, m int, b []float32, n, k int) {
	Each(m, 12, func(from, to int) {
		e.Mul(out[from*ld:], ld, a[from*k:], to-from, b, n, k)
	})
}

// Transpose is x [rows, cols] as [cols, rows].
func Transpose(x []float32, rows, cols int) []float32 {
	t := make([]float32, len(x))
	Each(cols, transposeTile, func(from, to int) { transpose(t[from*rows:], rows, x[from:], cols, rows, to-from) })
	return t
}

// transposeTile is a cache line of numbers.
const transposeTile = 16

// transpose writes x [rows, cols], whose rows are xStride apart, to t, whose rows are tStride apart, tile by tile: rows a power of two apart share sets of the
// caches, and are evicted before the next number of their line is written.
func transpose(t []float32, tStride int, x []float32, xStride, rows, cols int) {
	for c0 := 0; c0 < cols; c0 += transposeTile {
		for r0 := 0; r0 < rows; r0 += transposeTile {
			n := min(transposeTile, rows-r0)
			for c := c0; c < min(c0+transposeTile, cols); c++ {
				to := t[c*tStride+r0:][:n]
				for r := range to {
					to[r] = x[(r0+r)*xStride+c]
				}
			}
		}
	}
}

// factorBlock is how many columns of a factorisation are computed together.
const factorBlock = 128

// Cholesky overwrites the lower triangle of a [n, n] by the lower factor of it, a = l·lᵀ, and zeroes the upper one. An error names the
// first column that is not positive.
func (e *Engine) Cholesky(a []float32, n int) error {
	for at := 0; at < n; at += factorBlock {
		size := min(factorBlock, n-at)
		inverse, err := factorDiagonal(a, n, at, size)
		if err != nil {
			return err
		}
		below := n - at - size
		if below == 0 {
			break
		}
		panel := make([]float32, below*size) // a[below, block] · l⁻ᵀ
		for r := range below {
			copy(panel[r*size:(r+1)*size], a[(at+size+r)*n+at:])
		}
		solved := make([]float32, below*size)
		e.MulAll(solved, size, panel, below, inverse, size, size)
		for r := range below {
			copy(a[(at+size+r)*n+at:][:size], solved[r*size:])
		}
		blocks := (below + gramBlock - 1) / gramBlock
		Each(blocks, 1, func(from, to int) {
			for b := from; b < to; b++ {
				r0 := b * gramBlock
				rows := min(gramBlock, below-r0)
				cols := r0 + rows
				part := make([]float32, rows*cols)
				e.Mul(part, cols, solved[r0*size:], rows, solved, cols, size)
				for r := range rows {
					row := a[(at+size+r0+r)*n+at+size:][:cols]
					for c, v := range part[r*cols : (r+1)*cols] {
						row[c] -= v
					}
				}
			}
		})
	}
	for r := range n {
		clear(a[r*n+r+1 : (r+1)*n])
	}
	return nil
}

// factorDiagonal factors the block of a at [at, at+size), and is the inverse of the factor, [size, size].
func factorDiagonal(a []float32, n, at, size int) ([]float32, error) {
	l := make([]float64, size*size)
	for i := range size {
		for j := range i + 1 {
			sum := float64(a[(at+i)*n+at+j])
			for k := range j {
				sum -= l[i*size+k] * l[j*size+k]
			}
			if i > j {
				l[i*size+j] = sum / l[j*size+j]
				continue
			}
			if !(sum > 0) {
				return nil, fmt.Errorf("the matrix is not positive definite at column %d", at+i)
			}
			l[i*size+i] = math.Sqrt(sum)
		}
	}
	inverse := make([]float64, size*size)
	for j := range size {
		inverse[j*size+j] = 1 / l[j*size+j]
		for i := j + 1; i < size; i++ {
			sum := 0.0
			for k := j; k < i; k++ {
				sum -= l[i*size+k] * inverse[k*size+j]
			}
			inverse[i*size+j] = sum / l[i*size+i]
		}
	}
	out := make([]float32, size*size)
	for i := range size {
		for j := range i + 1 {
			a[(at+i)*n+at+j] = float32(l[i*size+j])
			out[i*size+j] = float32(inverse[i*size+j])
		}
	}
	return out, nil
}

// invertLower is the transpose of the inverse of a lower triangle l [n, n].
func (e *Engine) invertLower(l []float32, n int) []float32 {
	t := make([]float32, n*n) // t[c, r] is row r, column c of the inverse
	for at := 0; at < n; at += factorBlock {
		size := min(factorBlock, n-at)
		inverse := invertBlock(l, n, at, size)
		for i := range size {
			for j := range i + 1 {
				t[(at+j)*n+at+i] = inverse[i*size+j]
			}
		}
		if at == 0 {
			continue
		}
		row := make([]float32, size*at) // l[block, 0:at]
		for i := range size {
			copy(row[i*at:(i+1)*at], l[(at+i)*n:])
		}
		Each(at, 64, func(from, to int) {
			cols := to - from
			b := make([]float32, cols*at) // rows of t are zero before their own column
			for c := range cols {
				copy(b[c*at:(c+1)*at], t[(from+c)*n:])
			}
			product := make([]float32, cols*size) // [cols, size] = (l · x)ᵀ
			e.Mul(product, size, b, cols, row, size, at)
			solved := make([]float32, cols*size)
			e.Mul(solved, size, product, cols, inverse, size, size)
			for c := range cols {
				for i, v := range solved[c*size : (c+1)*size] {
					t[(from+c)*n+at+i] = -v
				}
			}
		})
	}
	return t
}

// invertBlock is the inverse of the lower triangle l at [at, at+size).
func invertBlock(l []float32, n, at, size int) []float32 {
	x := make([]float64, size*size)
	for j := range size {
		x[j*size+j] = 1 / float64(l[(at+j)*n+at+j])
		for i := j + 1; i < size; i++ {
			sum := 0.0
			for k := j; k < i; k++ {
				sum -= float64(l[(at+i)*n+at+k]) * x[k*size+j]
			}
			x[i*size+j] = sum / float64(l[(at+i)*n+at+i])
		}
	}
	out := make([]float32, size*size)
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// InverseFactor is the upper triangle u [n, n] with h⁻¹ = uᵀ·u, for a symmetric positive h, which it leaves as it is. With the order of rows and
// columns reversed h is l·lᵀ, and u is l⁻¹ reversed likewise, so that h itself is never inverted.
func (e *Engine) InverseFactor(h []float32, n int) ([]float32, error) {
	r := make([]float32, n*n)
	for i := range n {
		for j := range n {
			r[i*n+j] = h[(n-1-i)*n+n-1-j]
		}
	}
	if err := e.Cholesky(r, n); err != nil {
		return nil, err
	}
	t := e.invertLower(r, n) // t[c, r]: the inverse is l⁻¹[r, c]
	u := r
	for i := range n {
		for j := range n {
			u[i*n+j] = t[(n-1-j)*n+n-1-i]
		}
	}
	return u, nil
}
