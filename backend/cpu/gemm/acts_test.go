package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// TestLines holds activation lines to their definition: half a step of rounding, exact sums, scales of their block.
func TestLines(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		const m, k = 3, 160
		x := randomActs(rand.New(rand.NewPCG(6, 6)), m, k)
		clear(x[32:64])                // a block of zeros has scale 0
		x[70], x[71] = 1e30, -1e30     // far beyond what the block's other numbers need
		x[100], x[101] = 1e-40, -3e-41 // subnormal
		copy(x[128:160], x[0:32])      // equal blocks give equal lines
		a := fillActs(tier, Lines, x, m, k)
		for r := range m {
			got := a.decoded(r)
			for b := 0; b < k; b += 32 {
				line := bytesAt(a.at(r, b/32*lineBytes), lineBytes)
				largest, sums := 0.0, [2]int32{}
				for i, v := range x[r*k+b : r*k+b+32] {
					largest = max(largest, math.Abs(float64(v)))
					sums[i/16] += int32(int8(line[i]))
				}
				for i, v := range x[r*k+b : r*k+b+32] {
					if diff := math.Abs(got[b+i] - float64(v)); diff > largest/127*0.5001 {
						t.Errorf("row %d, number %d: %g became %g; half a step is %g", r, b+i, v, got[b+i], largest/254)
					}
				}
				for i, sum := range []int32{sums[0] + sums[1], sums[0], sums[1]} {
					bias := int32(math.Float32bits(lineFloat(line, lineBias+4*i)))
					if want := lineMagic - 128*sum; bias != int32(want) {
						t.Errorf("row %d, block %d: bias %d is %#x, want %#x", r, b/32, i, bias, want)
					}
					if got, want := lineFloat(line, lineSum+4*i), lineFloat(line, lineScale)*float32(sum); got != want {
						t.Errorf("row %d, block %d: sum %d is %g, want %g", r, b/32, i, got, want)
					}
				}
			}
		}
	})
}

// TestLinesAreQ8 holds the room that lines take to what the graph plans for them.
func TestLinesAreQ8(t *testing.T) {
	for k := 32; k <= 512; k += 32 {
		if got, want := int64(ActBytes(Lines, 3, k)), 3*graph.Q8.RowBytes(k); got != want {
			t.Errorf("3 rows of %d activations take %d bytes, and the graph plans %d", k, got, want)
		}
	}
}

// TestLinesNaN makes sure that a NaN is not rounded to an innocent number.
func TestLinesNaN(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		x := make([]float32, 32)
		x[7], x[9] = float32(math.NaN()), 5
		a := fillActs(tier, Lines, x, 1, 32)
		if scale := lineFloat(bytesAt(a.base, lineBytes), lineScale); scale == scale {
			t.Errorf("a block with a NaN has scale %g", scale)
		}
	})
}

// TestBFloat16 rounds to nearest, ties to even, as quant does: a weight of 1 among zeros gives the rounded activation
// back, at every place of rows of every length.
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
