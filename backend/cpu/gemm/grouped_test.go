package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// eachGrouped runs a test under every tier with grouped matmuls, for every format and group size.
func eachGrouped(t *testing.T, test func(t *testing.T, tier Tier, f quant.Format, group int)) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier == AVX512BF16 {
			t.Skip("its kernels are those of AVX512")
		}
		for f := range packings {
			group := ScaleGroup(tier, f, 256)
			if group == 0 {
				t.Skip("this tier has no grouped matmuls")
			}
			for ; group >= 32; group /= 2 {
				t.Run(fmt.Sprintf("%v/%d", f, group), func(t *testing.T) { test(t, tier, f, group) })
			}
		}
	})
}

func groupedActs(tier Tier, x []float32, m, k, group int) *Acts {
	a := GroupedActs(make([]byte, ActBytes(Q8, m, k)), m, k, group)
	a.Fill(tier, x, 0, m)
	return &a
}

// groupedRow is what a row of grouped activations decodes to.
func (a *Acts) groupedRow(r int) []float64 {
	var row []float64
	for k := 0; k < a.K; k += a.group {
		at := bytesAt(a.groupAt(r, k), groupBytes(a.group))
		for i := range a.group {
			row = append(row, float64(int8(at[groupHeader+i/32*groupBlock+r%mr*32+i%32]))*float64(f32At(at, 4*(r%mr))))
		}
	}
	return row
}

// TestGroupedActs checks grouped activations against their definition: at most half a step of rounding error, and the start of sums.
func TestGroupedActs(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier.kernels().groupedTile == nil {
			t.Skip("this tier has no grouped matmuls")
		}
		for _, group := range []int{32, 64, 128, 256} {
			const m, k = minGroupedRows + 1, kc + 512
			x := randomActs(rand.New(rand.NewPCG(6, 6)), m, k)
			clear(x[k : k+group]) // a group of zeros has scale 0
			x[2*k+70], x[2*k+71] = 1e30, -1e30
			x[3*k+7] = float32(math.NaN())
			a := groupedActs(tier, x, m, k, group)
			for r := range m {
				got := a.groupedRow(r)
				for g := 0; g < k; g += group {
					largest, sum, at := 0.0, int32(0), bytesAt(a.groupAt(r, g), groupBytes(group))
					for i, v := range x[r*k+g : r*k+g+group] {
						largest = max(largest, math.Abs(float64(v)))
						sum += int32(int8(at[groupHeader+i/32*groupBlock+r%mr*32+i%32]))
					}
					if r == 3 && g == 0 {
						if scale := f32At(at, 4*r); scale == scale {
							t.Errorf("a group with a NaN has scale %g", scale)
						}
						continue
					}
					for i, v := range x[r*k+g : r*k+g+group] {
						if diff := math.Abs(got[g+i] - float64(v)); diff > largest/127*0.5001 {
							t.Fatalf("groups of %d, row %d, number %d: %g became %g; half a step is %g", group, r, g+i, v, got[g+i], largest/254)
						}
					}
					if bias := int32(math.Float32bits(f32At(at, groupBias+4*(r%mr)))); bias != floatMagic-128*sum {
						t.Fatalf("groups of %d, row %d, number %d: bias %#x, want %#x", group, r, g, bias, floatMagic-128*sum)
					}
				}
			}
		}
	})
}

// requantizedWeights is what the weights decode to when they have been rounded to one scale for each group, [rows][cols], and the
// largest error of that, in steps of the group.
func requantizedWeights(tier Tier, tensor quant.Tensor, w *Weights, group int) (rounded [][]float64, furthest float64) {
	k, s := tier.kernels(), NewScratch()
	p := matmul{kernels: k, w: w, to: w.Rows, s: s, acts: &Acts{group: group}}
	own := make([]float32, w.Cols)
	for n := range w.Rows {
		row := make([]float64, w.Cols)
		quant.Decode(tensor.Format, own, tensor.Row(n))
		for k0 := 0; k0 < w.Cols; k0 += kc {
			codes, scales := p.requantize(w.pack, n/NR, k0, min(kc, w.Cols-k0))
			for i := range min(kc, w.Cols-k0) {
				scale := float64(*offsetFloats(scales, i/group*NR+n%NR))
				row[k0+i] = scale * (float64(*offset(codes, i/4*planeBytes+4*(n%NR)+i%4)) - 128)
				if scale > 0 {
					furthest = max(furthest, math.Abs(row[k0+i]-float64(own[k0+i]))/scale)
				}
			}
		}
		rounded = append(rounded, row)
	}
	return rounded, furthest
}

// TestGroupedMul multiplies 36 to 257 rows and more than a pass, rows of lengths around K-blocks, and features that NR does not divide, in
// ranges, over stale results.
func TestGroupedMul(t *testing.T) {
	eachGrouped(t, func(t *testing.T, tier Tier, f quant.Format, group int) {
		rng := rand.New(rand.NewPCG(8, uint64(f)))
		for _, size := range []struct{ m, n, k int }{
			{minGroupedRows, 1, max(group, f.Block())}, {minGroupedRows + 1, 33, 256}, {66, 32, kc}, {69, 70, kc + 256}, {257, 37, 256}, {mcGrouped + 8, 64, 2*kc + 512},
		} {
			tensor := randomTensor(rng, f, size.n, size.k)
			w, x := pack(t, tier, tensor), randomActs(rng, size.m, size.k)
			acts := groupedActs(tier, x, size.m, size.k, group)
			rounded, furthest := requantizedWeights(tier, tensor, w, group)
			if furthest > 0.52 {
				t.Errorf("a weight was rounded by %g steps", furthest)
			}
			ld := size.n + 3
			out, s := make([]float32, size.m*ld), NewScratch()
			stale := func() {
				for i := range out {
					out[i] = 3
				}
			}
			stale()
			for from := 0; from < size.n; from += 2 * NR {
				Mul(tier, out, ld, w, from, min(from+2*NR, size.n), acts, 0, 2*mr, s)
				Mul(tier, out, ld, w, from, min(from+2*NR, size.n), acts, 2*mr, size.m, s)
			}
			checkGrouped(t, out, ld, rounded, acts)
			stale()
			Mul(tier, out, ld, w, 0, size.n, acts, 0, size.m, s)
			checkGrouped(t, out, ld, rounded, acts)
			for i, v := range out {
				if i%ld >= size.n && v != 3 {
					t.Fatalf("out[%d] is %g, and must not have been touched", i, v)
				}
			}
			if size.m == minGroupedRows {
				if got := testing.AllocsPerRun(3, func() { Mul(tier, out, ld, w, 0, size.n, acts, 0, size.m, s) }); got != 0 {
					t.Errorf("%v allocations", got)
				}
			}
		}
	})
}

func checkGrouped(t *testing.T, out []float32, ld int, rounded [][]float64, acts *Acts) {
	t.Helper()
	for r := 0; r < acts.M; r += 1 + acts.M/70 {
		row := acts.groupedRow(r)
		for n, weights := range rounded {
			want, magnitude := 0.0, 0.0
			for i, v := range weights {
				want += v * row[i]
				magnitude += math.Abs(v * row[i])
			}
			if got := float64(out[r*ld+n]); !(math.Abs(got-want) <= 2e-6*magnitude) {
				t.Fatalf("%d rows of %d: row %d, feature %d: %g, want %g", acts.M, acts.K, r, n, got, want)
			}
		}
	}
}
