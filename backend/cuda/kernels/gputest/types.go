package gputest

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Plain are the types of activations that kernels are made for.
var Plain = []graph.Type{graph.F32, graph.BF16}

// Precision is how far a kernel may be from the exact result, rounding its result to a type.
func Precision(t graph.Type) float64 {
	if t == graph.BF16 {
		return 4e-3
	}
	return 1e-5
}

// Put puts numbers on the device as F32 or BF16; they should be exact in it.
func (g *GPU) Put(t graph.Type, x []float32) driver.Ptr {
	if t == graph.BF16 {
		return g.BF16(x)
	}
	return g.F32(x)
}

// guard is the bytes after an output that must stay unwritten.
const guard = 64

// Room allocates n numbers of a type and a guard after them, all poisoned.
func (g *GPU) Room(t graph.Type, n int) driver.Ptr { return g.Poisoned(int(t.RowBytes(n)) + guard) }

// Take reads such room back. The guard must be unchanged.
func (g *GPU) Take(what string, t graph.Type, p driver.Ptr, n int) []float32 {
	g.Helper()
	size := int(t.RowBytes(n))
	b := g.ReadBytes(p, size+guard)
	for i, x := range b[size:] {
		if x != 0xff {
			g.Errorf("%s: byte %d after the result was written", what, i)
			break
		}
	}
	x := make([]float32, n)
	quant.Decode(t.Format(), x, b[:size])
	return x
}

// Rope rotates heads in place by angles, [size of the rotated dims / 2][cosine, sine], and rounds to BF16 like the kernels.
func Rope(x []float32, size int, angles []float32, adjacent bool) {
	for h := 0; h < len(x); h += size {
		for i := range len(angles) / 2 {
			a, b := h+i, h+i+len(angles)/2
			if adjacent {
				a, b = h+2*i, h+2*i+1
			}
			c, s := angles[2*i], angles[2*i+1]
			x[a], x[b] = x[a]*c-x[b]*s, x[b]*c+x[a]*s
			x[a], x[b] = quant.BF16ToF32(quant.F32ToBF16(x[a])), quant.BF16ToF32(quant.F32ToBF16(x[b]))
		}
	}
}
