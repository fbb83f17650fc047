package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// eachWide runs a test under every tier with wide products, for every format and group of them.
func eachWide(t *testing.T, test func(t *testing.T, tier Tier, f quant.Format, group int)) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier == AVX512BF16 {
			t.Skip("its kernels are those of AVX512")
		}
		for f := range wideGroups {
			group := WideGroup(tier, f, 256)
			if group == 0 {
				t.Skip("this tier has no wide products")
			}
			for ; group >= 32; group /= 2 {
				t.Run(fmt.Sprintf("%v/%d", f, group), func(t *testing.T) { test(t, tier, f, group) })
			}
		}
	})
}

func wideActs(tier Tier, x []float32, m, k, group int) *Acts {
	a := WideActs(make([]byte, ActBytes(Lines, m, k)), m, k, group)
	a.Fill(tier, x, 0, m)
	return &a
}

// wideRow is what a row of wide activations stands for.
func (a *Acts) wideRow(r int) []float64 {
	var row []float64
	for k := 0; k < a.K; k += a.group {
		at := bytesAt(a.wide(r, k), wideBytes(a.group))
		for i := range a.group {
			row = append(row, float64(int8(at[wideHead+i/32*wideBlock+r%tileRows*32+i%32]))*float64(lineFloat(at, 4*(r%tileRows))))
		}
	}
	return row
}

// TestWideActs holds wide activations to their definition: half a step of rounding, and what sums start from.
func TestWideActs(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier.kernels().wideTile == nil {
			t.Skip("this tier has no wide products")
		}
		for _, group := range []int{32, 64, 128, 256} {
			const m, k = leastWide + 1, panelK + 512
			x := randomActs(rand.New(rand.NewPCG(6, 6)), m, k)
			clear(x[k : k+group]) // a group of zeros has scale 0
			x[2*k+70], x[2*k+71] = 1e30, -1e30
			x[3*k+7] = float32(math.NaN())
			a := wideActs(tier, x, m, k, group)
			for r := range m {
				got := a.wideRow(r)
				for g := 0; g < k; g += group {
					largest, sum, at := 0.0, int32(0), bytesAt(a.wide(r, g), wideBytes(group))
					for i, v := range x[r*k+g : r*k+g+group] {
						largest = max(largest, math.Abs(float64(v)))
						sum += int32(int8(at[wideHead+i/32*wideBlock+r%tileRows*32+i%32]))
					}
					if r == 3 && g == 0 {
						if scale := lineFloat(at, 4*r); scale == scale {
							t.Errorf("a group with a NaN has scale %g", scale)
						}
						continue
					}
					for i, v := range x[r*k+g : r*k+g+group] {
						if diff := math.Abs(got[g+i] - float64(v)); diff > largest/127*0.5001 {
							t.Fatalf("groups of %d, row %d, number %d: %g became %g; half a step is %g", group, r, g+i, v, got[g+i], largest/254)
						}
					}
					if bias := int32(math.Float32bits(lineFloat(at, wideBias+4*(r%tileRows)))); bias != lineMagic-128*sum {
						t.Fatalf("groups of %d, row %d, number %d: bias %#x, want %#x", group, r, g, bias, lineMagic-128*sum)
					}
				}
			}
		}
	})
}

// wideWeights is what the weights stand for when they have been rounded to one scale for each group, [rows][cols], and how far that is
// from what they were, in steps of the group, at most.
func wideWeights(tier Tier, tensor quant.Tensor, w *Weights, group int) (rounded [][]float64, furthest float64) {
	k, s := tier.kernels(), NewScratch()
	p := product{kernels: k, w: w, to: w.Rows, s: s, acts: &Acts{group: group}}
	own := make([]float32, w.Cols)
	for n := range w.Rows {
		row := make([]float64, w.Cols)
		quant.Decode(tensor.Format, own, tensor.Row(n))
		for chunk := 0; chunk < w.Cols; chunk += panelK {
			codes, scales := p.unpackWide(w.pack, n/Granule, chunk, min(panelK, w.Cols-chunk))
			for i := range min(panelK, w.Cols-chunk) {
				scale := float64(*offsetFloats(scales, i/group*Granule+n%Granule))
				row[chunk+i] = scale * (float64(*offset(codes, i/4*planeBytes+4*(n%Granule)+i%4)) - 128)
				if scale > 0 {
					furthest = max(furthest, math.Abs(row[chunk+i]-float64(own[chunk+i]))/scale)
				}
			}
		}
		rounded = append(rounded, row)
	}
	return rounded, furthest
}

// TestWideProducts multiplies 36 to 257 rows and more than a pass, rows of lengths around chunks, and features that Granule does not divide, by ranges, over
// what out held.
func TestWideProducts(t *testing.T) {
	eachWide(t, func(t *testing.T, tier Tier, f quant.Format, group int) {
		rng := rand.New(rand.NewPCG(8, uint64(f)))
		for _, size := range []struct{ m, n, k int }{
			{leastWide, 1, max(group, f.Block())}, {leastWide + 1, 33, 256}, {66, 32, panelK}, {69, 70, panelK + 256}, {257, 37, 256}, {wideRows + 8, 64, 2*panelK + 512},
		} {
			tensor := randomTensor(rng, f, size.n, size.k)
			w, x := pack(t, tier, tensor), randomActs(rng, size.m, size.k)
			acts := wideActs(tier, x, size.m, size.k, group)
			rounded, furthest := wideWeights(tier, tensor, w, group)
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
			for from := 0; from < size.n; from += 2 * Granule {
				Mul(tier, out, ld, w, from, min(from+2*Granule, size.n), acts, 0, 2*tileRows, s)
				Mul(tier, out, ld, w, from, min(from+2*Granule, size.n), acts, 2*tileRows, size.m, s)
			}
			checkWide(t, out, ld, rounded, acts)
			stale()
			Mul(tier, out, ld, w, 0, size.n, acts, 0, size.m, s)
			checkWide(t, out, ld, rounded, acts)
			for i, v := range out {
				if i%ld >= size.n && v != 3 {
					t.Fatalf("out[%d] is %g, and must not have been touched", i, v)
				}
			}
			if size.m == leastWide {
				if got := testing.AllocsPerRun(3, func() { Mul(tier, out, ld, w, 0, size.n, acts, 0, size.m, s) }); got != 0 {
					t.Errorf("%v allocations", got)
				}
			}
		}
	})
}

func checkWide(t *testing.T, out []float32, ld int, rounded [][]float64, acts *Acts) {
	t.Helper()
	for r := 0; r < acts.M; r += 1 + acts.M/70 {
		row := acts.wideRow(r)
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
