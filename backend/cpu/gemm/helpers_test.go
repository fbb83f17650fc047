package gemm

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/quant"
)

// randomTensor is a matrix of any bytes that decodes to numbers of a sensible size.
func randomTensor(rng *rand.Rand, f quant.Format, rows, cols int) quant.Tensor {
	data := make([]byte, f.RowBytes(cols)*int64(rows))
	if f.Descriptor().CodeGroup > 0 {
		testkit.RandomBlocks(rng, f, data)
		return quant.Tensor{Format: f, Rows: rows, Cols: cols, Data: data}
	}
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for block := data; len(block) > 0; block = block[f.BlockBytes():] {
		for i := range packings[f].f16s {
			binary.LittleEndian.PutUint16(block[packings[f].f16sAt+2*i:], quant.F32ToF16(float32(rng.NormFloat64()/16)))
		}
		switch f {
		case quant.UINT4:
			binary.LittleEndian.PutUint16(block[2:], quant.F32ToF16(float32(rng.IntN(17))))
		case quant.MXFP4:
			block[0] = byte(120 + rng.IntN(10))
		case quant.F32:
			binary.LittleEndian.PutUint32(block, math.Float32bits(float32(rng.NormFloat64())))
		case quant.F16:
			binary.LittleEndian.PutUint16(block, quant.F32ToF16(float32(rng.NormFloat64())))
		case quant.BF16:
			binary.LittleEndian.PutUint16(block, quant.F32ToBF16(float32(rng.NormFloat64())))
		}
	}
	return quant.Tensor{Format: f, Rows: rows, Cols: cols, Data: data}
}

func randomActs(rng *rand.Rand, m, k int) []float32 {
	x := make([]float32, m*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func pack(t testing.TB, tier Tier, tensor quant.Tensor) *Weights {
	t.Helper()
	data := tensor.Data
	if n := PackedBytes(tensor.Format, tensor.Rows, tensor.Cols); n > 0 {
		data = make([]byte, n)
		Pack(tier, data, tensor, 0, tensor.Rows)
	}
	w, err := Packed(tensor.Format, tensor.Rows, tensor.Cols, data)
	if err != nil {
		t.Fatal(err)
	}
	return &w
}

// fillActs lays x out in a format; for BFloat16 x is rounded first, so that the products are exact either way.
func fillActs(tier Tier, f ActFormat, x []float32, m, k int) *Acts {
	for i := range x {
		if f == BFloat16 {
			x[i] = quant.BF16ToF32(quant.F32ToBF16(x[i]))
		}
	}
	a := NewActs(f, make([]byte, ActBytes(f, m, k)), m, k)
	a.Fill(tier, x, 0, m)
	return &a
}

// decoded is what a row of activations stands for.
func (a *Acts) decoded(r int) []float64 {
	out := make([]float64, a.K)
	row := bytesAt(a.at(r, 0), a.rowStride)
	for i := range out {
		switch a.Format {
		case Q8:
			block := row[i/32*q8BlockBytes:]
			out[i] = float64(int8(block[i%32])) * float64(f32At(block, q8Scale))
		default:
			out[i] = float64(number(quant.F32, row, i))
		}
	}
	return out
}

// reference is the product of decoded weights and decoded activations in float64, and beside each number the largest
// error that summing in float32 explains: 24 bits of the sum of magnitudes, with room for the partial sums.
type reference struct {
	n           int
	want, bound []float64
}

func newReference(tensor quant.Tensor, a *Acts) reference {
	ref := reference{tensor.Rows, make([]float64, a.M*tensor.Rows), make([]float64, a.M*tensor.Rows)}
	acts := make([][]float64, a.M)
	for r := range acts {
		acts[r] = a.decoded(r)
	}
	w := make([]float32, tensor.Cols)
	for n := range tensor.Rows {
		quant.Decode(tensor.Format, w, tensor.Row(n))
		largest := 0.0
		for _, v := range w {
			largest = max(largest, math.Abs(float64(v)))
		}
		for r, act := range acts {
			sum, magnitude := 0.0, 0.0
			for i, v := range w {
				sum += act[i] * float64(v)
				magnitude += math.Abs(act[i])
			}
			ref.want[r*ref.n+n], ref.bound[r*ref.n+n] = sum, 2e-6*magnitude*largest+1e-30
		}
	}
	return ref
}

// check compares the first features of rows [0, m) of out, which are ld long.
func (ref reference) check(out []float32, ld, m, features int) error {
	for r := range m {
		for n := range features {
			got, want := float64(out[r*ld+n]), ref.want[r*ref.n+n]
			if diff := math.Abs(got - want); !(diff <= ref.bound[r*ref.n+n]) {
				return fmt.Errorf("row %d, feature %d: %g, want %g; off by %g, and %g is explained", r, n, got, want, diff, ref.bound[r*ref.n+n])
			}
		}
	}
	return nil
}

// eachTier runs a test under every tier of the machine.
func eachTier(t *testing.T, test func(t *testing.T, tier Tier)) {
	for i, tier := range Tiers() {
		if tier == NEON && i > 0 && testing.Short() {
			continue // make arm64 has a processor with nothing better run them
		}
		t.Run(tier.String(), func(t *testing.T) { test(t, tier) })
	}
}
