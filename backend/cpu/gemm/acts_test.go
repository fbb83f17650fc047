package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// TestQ8 checks Q8 blocks against their definition: at most half a step of rounding error, exact sums, scales of their block.
func TestQ8(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		const m, k = 3, 160
		x := randomActs(rand.New(rand.NewPCG(6, 6)), m, k)
		clear(x[32:64])                // a block of zeros has scale 0
		x[70], x[71] = 1e30, -1e30     // far beyond what the block's other numbers need
		x[100], x[101] = 1e-40, -3e-41 // subnormal
		copy(x[128:160], x[0:32])      // equal blocks give equal Q8 blocks
		a := fillActs(tier, Q8, x, m, k)
		for r := range m {
			got := a.decoded(r)
			for b := 0; b < k; b += 32 {
				block := bytesAt(a.at(r, b/32*q8BlockBytes), q8BlockBytes)
				largest, sums := 0.0, [2]int32{}
				for i, v := range x[r*k+b : r*k+b+32] {
					largest = max(largest, math.Abs(float64(v)))
					sums[i/16] += int32(int8(block[i]))
				}
				for i, v := range x[r*k+b : r*k+b+32] {
					if diff := math.Abs(got[b+i] - float64(v)); diff > largest/127*0.5001 {
						t.Errorf("row %d, number %d: %g became %g; half a step is %g", r, b+i, v, got[b+i], largest/254)
					}
				}
				for i, sum := range []int32{sums[0] + sums[1], sums[0], sums[1]} {
					bias := int32(math.Float32bits(f32At(block, q8Bias+4*i)))
					if want := floatMagic - 128*sum; bias != int32(want) {
						t.Errorf("row %d, block %d: bias %d is %#x, want %#x", r, b/32, i, bias, want)
					}
					if got, want := f32At(block, q8Sum+4*i), f32At(block, q8Scale)*float32(sum); got != want {
						t.Errorf("row %d, block %d: sum %d is %g, want %g", r, b/32, i, got, want)
					}
				}
			}
		}
	})
}

// TestQ8Bytes: Q8 activations take the memory that the graph plans for them.
func TestQ8Bytes(t *testing.T) {
	for k := 32; k <= 512; k += 32 {
		if got, want := int64(ActBytes(Q8, 3, k)), 3*graph.Q8.RowBytes(k); got != want {
			t.Errorf("3 rows of %d activations take %d bytes, and the graph plans %d", k, got, want)
		}
	}
}

// TestQ8NaN: a NaN shows in the scale, and is not rounded to a finite number.
func TestQ8NaN(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		x := make([]float32, 32)
		x[7], x[9] = float32(math.NaN()), 5
		a := fillActs(tier, Q8, x, 1, 32)
		if scale := f32At(bytesAt(a.base, q8BlockBytes), q8Scale); scale == scale {
			t.Errorf("a block with a NaN has scale %g", scale)
		}
	})
}

// TestBFloat16 rounds to nearest, ties to even, as quant does: a weight of 1 among zeros gives the rounded activation
// back, at every position of rows of every length.
func TestBFloat16(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if ActFormatOf(tier, quant.BF16) != BFloat16 {
			t.Skip("this tier multiplies bf16 weights with float32 activations")
		}
		const m, n = 24, 32
		for k := 1; k <= 257; k += 3 {
			x := randomActs(rand.New(rand.NewPCG(7, uint64(k))), m, k)
			w := quant.Tensor{Format: quant.BF16, Rows: n, Cols: k, Data: make([]byte, 2*n*k)}
			for row := range n {
				w.Data[2*(row*k+row*7%k)+1], w.Data[2*(row*k+row*7%k)] = 0x3f, 0x80
			}
			a, out := FloatActs(x, m, k), make([]float32, m*n)
			a.Format = BFloat16
			Mul(tier, out, n, pack(t, tier, w), 0, n, &a, 0, m, NewScratch())
			for i, got := range out {
				if want := quant.BF16ToF32(quant.F32ToBF16(x[i/n*k+i%n*7%k])); got != want {
					t.Fatalf("row %d of %d numbers, feature %d: %g, want %g", i/n, k, i%n, got, want)
				}
			}
		}
	})
}
