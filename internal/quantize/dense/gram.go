package dense

import (
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// Precision is how exactly a sum of outer products is computed.
type Precision uint8

const (
	Float32  Precision = iota
	BFloat16           // x may be rounded to bf16 first, where that is faster
	Int8               // x is rounded to 127ths of the largest of 32 rows of a column
)

// gramBlock is how many columns of a sum of outer products are computed together.
const gramBlock = 256

// mostRounded is the largest number of an x that is rounded; blocks of 8 bits have scales in f16.
const mostRounded = 1 << 20

// rounds reports whether all of x can be rounded: there is nothing too large, infinite or NaN.
func rounds(x []float32) bool {
	for _, v := range x {
		if !(v <= mostRounded && v >= -mostRounded) {
			return false
		}
	}
	return true
}

// gramColumns are columns of x, as both sides of a product have them.
type gramColumns struct {
	n       int
	acts    gemm.Acts
	weights gemm.Weights
}

// AddGram adds xᵀx to h [cols, cols] for x [rows, cols]. Blocks below the diagonal are mirrored. Products and sums are float32, or int32 of 32 rows, whatever x is
// rounded to. An x with numbers that are too large for that, or are none, is not rounded.
func (e *Engine) AddGram(h, x []float32, rows, cols int, p Precision) {
	if p == BFloat16 && gemm.ActFormatOf(e.tier, quant.BF16) != gemm.BFloat16 || p != Float32 && !rounds(x) {
		p = Float32
	}
	t, length := Transpose(x, rows, cols), rows
	if p == Int8 && rows%quant.Q8_0.Block() != 0 {
		length = (rows + 31) / 32 * 32
		padded := make([]float32, cols*length)
		for c := range cols {
			copy(padded[c*length:], t[c*rows:(c+1)*rows])
		}
		t = padded
	}
	sides := make([]gramColumns, (cols+gramBlock-1)/gramBlock)
	Each(len(sides), 1, func(from, to int) {
		for i := from; i < to; i++ {
			at := i * gramBlock
			n := min(gramBlock, cols-at)
			sides[i] = e.columns(t[at*length:(at+n)*length], n, length, p)
		}
	})
	blocks := len(sides)
	Each(blocks*blocks, 1, func(from, to int) {
		part := make([]float32, gramBlock*gramBlock)
		s := e.scratch.Get().(*gemm.Scratch)
		for b := from; b < to; b++ {
			i, j := b/blocks, b%blocks
			if j < i {
				continue
			}
			left, right := &sides[i], &sides[j]
			gemm.Mul(e.tier, part, right.n, &right.weights, 0, right.n, &left.acts, 0, left.n, s)
			for r := range left.n {
				row, sum := h[(i*gramBlock+r)*cols+j*gramBlock:], part[r*right.n:(r+1)*right.n]
				for c, v := range sum {
					row[c] += v
				}
			}
			if j > i {
				transpose(h[j*gramBlock*cols+i*gramBlock:], cols, h[i*gramBlock*cols+j*gramBlock:], cols, left.n, right.n)
			}
		}
		e.scratch.Put(s)
	})
}

// columns lays out n columns of x, t [n, length].
func (e *Engine) columns(t []float32, n, length int, p Precision) (c gramColumns) {
	format := [...]quant.Format{Float32: quant.F32, BFloat16: quant.BF16, Int8: quant.Q8_0}[p]
	m := quant.Tensor{Format: format, Rows: n, Cols: length, Data: bytesOf(t)}
	if p != Float32 {
		m.Data = make([]byte, int64(n)*format.RowBytes(length))
		if err := quant.Encode(format, m.Data, t); err != nil {
			panic(err) // these can be rounded
		}
	}
	c.n = n
	data := m.Data
	if p == Int8 {
		data = make([]byte, gemm.PackedBytes(format, n, length))
		gemm.Pack(e.tier, data, m, 0, n)
		buffer := make([]byte, gemm.ActBytes(gemm.Q8, n, length))
		if group := gemm.ScaleGroup(e.tier, format, length); group > 0 && gemm.Grouped(e.tier, n) {
			c.acts = gemm.GroupedActs(e.tier, buffer, n, length, group)
		} else {
			c.acts = gemm.TiledActs(e.tier, buffer, n, length)
		}
		c.acts.Fill(e.tier, t, 0, n)
	} else {
		c.acts = gemm.FloatActs(t, n, length)
		if p == BFloat16 {
			c.acts.Format = gemm.BFloat16
		}
	}
	var err error
	if c.weights, err = gemm.Packed(format, n, length, data); err != nil {
		panic(err) // sizes are ours
	}
	return c
}
