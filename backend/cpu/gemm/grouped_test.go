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
	a := GroupedActs(tier, make([]byte, ActBytes(Q8, m, k)), m, k, group)
	a.Fill(tier, x, 0, m)
	return &a
}

// groupedRow is what a row of grouped activations decodes to.
func (a *Acts) groupedRow(r int) []float64 {
	var row []float64
	for k := 0; k < a.K; k += a.group {
		at := bytesAt(a.groupAt(r, k), a.groupBytes())
		for i := range a.group {
			row = append(row, float64(int8(at[a.groupHeader+i/32*groupBlock+r%mr*32+i%32]))*float64(f32At(at, 4*(r%mr))))
		}
	}
	return row
}

// TestGroupedActs checks grouped activations against their definition: at most half a step of rounding error, and the start of sums.
func TestGroupedActs(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier.kernels().quantizeGrouped == nil {
			t.Skip("this tier has no grouped matmuls")
		}
		for _, group := range []int{32, 64, mostGroup} {
			const m, k = minGroupedRows + 1, kc + 512
			x := randomActs(rand.New(rand.NewPCG(6, 6)), m, k)
			clear(x[k : k+group]) // a group of zeros has scale 0
			x[2*k+70], x[2*k+71] = 1e30, -1e30
			x[3*k+7] = float32(math.NaN())
			a := groupedActs(tier, x, m, k, group)
			for r := range m {
				got := a.groupedRow(r)
				for g := 0; g < k; g += group {
					largest, at := 0.0, bytesAt(a.groupAt(r, g), a.groupBytes())
					var lanes [mostGroup / 16][2]int32
					for i, v := range x[r*k+g : r*k+g+group] {
						largest = max(largest, math.Abs(float64(v)))
						lanes[i/16][i/2%2] += int32(int8(at[a.groupHeader+i/32*groupBlock+r%mr*32+i%32]))
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
					for i, want := range wantSums(tier, lanes[:group/16]) {
						if got := int32(math.Float32bits(f32At(at, groupSums*(1+i)+4*(r%mr)))); got != want {
							t.Fatalf("groups of %d, row %d, number %d: word %d of its sums is %#x, want %#x", group, r, g, i, got, want)
						}
					}
				}
			}
		}
	})
}

// wantSums are the words that stand for a row behind the scales of its group, whose halves of blocks have such sums of k ≡ 0 and 1 mod 4, and 2 and 3; see
// groupSums.
func wantSums(tier Tier, lanes [][2]int32) (words []int32) {
	var halves []int32
	for _, lane := range lanes {
		halves = append(halves, lane[0]+lane[1])
	}
	pair := func(a, b int32) int32 { return a&0xffff | b<<16 }
	all, blocks := int32(0), make([]int32, (len(halves)/2+1)&^1)
	for i, sum := range halves {
		all += sum
		blocks[i/2] += sum
	}
	if tier.kernels().wholeScales == nil {
		return []int32{floatMagic - 128*all}
	}
	for i := 0; i < len(halves); i += 2 {
		words = append(words, pair(halves[i], halves[i+1]))
	}
	for i := 0; i < len(blocks); i += 2 {
		words = append(words, pair(blocks[i], blocks[i+1]))
	}
	for _, lane := range lanes {
		words = append(words, pair(-lane[0], -lane[1]))
	}
	return words
}

// requantizedWeights is what the weights decode to when they have been rounded to one scale for each group, [rows][cols], and the
// largest error of that, in steps of the group: 127ths of the largest weight that the format could hold there.
func requantizedWeights(tier Tier, tensor quant.Tensor, w *Weights, group int) (rounded [][]float64, furthest float64) {
	k, s := tier.kernels(), NewScratch()
	p := matmul{kernels: k, w: w, to: w.Rows, s: s, acts: &Acts{group: group}}
	own := make([]float32, w.Cols)
	for n := range w.Rows {
		row := make([]float64, w.Cols)
		quant.Decode(tensor.Format, own, tensor.Row(n))
		for k0 := 0; k0 < w.Cols; k0 += kc {
			numbers := min(kc, w.Cols-k0)
			weight, scaleOf := p.requantizedRow(n, k0, numbers)
			for i := range numbers {
				scale := scaleOf(i)
				row[k0+i] = scale * weight(i)
				if k.scaledTile[w.pack.layout][0] != nil {
					scale *= 32760. / 127
				}
				if scale > 0 {
					furthest = max(furthest, math.Abs(row[k0+i]-float64(own[k0+i]))/scale)
				}
			}
		}
		rounded = append(rounded, row)
	}
	return rounded, furthest
}

// requantizedRow rounds so many weights of row n, k0 and following: what number i then is in units of its group's scale, and that scale.
func (p *matmul) requantizedRow(n, k0, numbers int) (weight, scale func(i int) float64) {
	pack := p.w.pack
	if p.scaledTile[pack.layout][0] == nil {
		codes, scales := p.requantize(pack, n/NR, k0, numbers)
		return func(i int) float64 { return float64(*offset(codes, i/4*planeBytes+4*(n%NR)+i%4)) - 128 },
			func(i int) float64 { return float64(*offsetFloats(scales, i/p.acts.group*NR+n%NR)) }
	}
	p.makeWhole(pack, p.prepare(pack, n/NR, k0, numbers, address(&p.s.bPanel[0]), false), n%NR/p.rows*p.rows, numbers)
	return func(i int) float64 {
			return p.wholeWeight(float64(*offset(&p.s.bPanel[0], (i/4*p.rows+n%p.rows)*4+i%4)), i, n%NR)
		},
		func(i int) float64 { return float64(p.s.groupScales[i/p.acts.group*NR+n%NR]) }
}

// wholeWeight is what number i of a K-block and row n of a panel is, in units of its group's scale, as scaledTiles computes with it.
func (p *matmul) wholeWeight(code float64, i, n int) float64 {
	block, each := i/32, 1
	if p.w.pack.layout.sub16() {
		block, each = i/16, 2
	}
	group := i / p.acts.group
	pairs := (p.acts.group/32*each + 1) / 2
	in := block - group*p.acts.group/32*each
	half := func(words []float32, row, at int) float64 {
		return float64(int16(math.Float32bits(words[row*NR+n]) >> (16 * at)))
	}
	code -= float64((128 - p.far[p.w.pack.layout]) / p.factor[p.w.pack.layout])
	return code*half(p.s.scales, block, 0) + half(p.s.mins, group*pairs+in/2, in%2)
}

// TestGroupedMemory: as many rows as may be grouped have room where their Q8 blocks would be, whatever the group and the number of rows.
func TestGroupedMemory(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		if tier.kernels().quantizeGrouped == nil {
			t.Skip("this tier has no grouped matmuls")
		}
		for m := 1; m < 3*minGroupedRows; m++ {
			for group := 32; group <= mostGroup && Grouped(tier, m); group *= 2 {
				a := GroupedActs(tier, make([]byte, ActBytes(Q8, m, mostGroup)), m, mostGroup, group)
				if need := (m + mr - 1) / mr * mostGroup / group * a.groupBytes(); need > ActBytes(Q8, m, mostGroup) {
					t.Errorf("%d rows of %d in groups of %d take %d bytes, and there are %d", m, mostGroup, group, need, ActBytes(Q8, m, mostGroup))
				}
			}
		}
	})
}

// TestGroupedMul multiplies 12 to 257 rows and more than a pass, rows of lengths around K-blocks, and features that NR does not divide, in
// ranges, over stale results.
func TestGroupedMul(t *testing.T) {
	eachGrouped(t, func(t *testing.T, tier Tier, f quant.Format, group int) {
		rng := rand.New(rand.NewPCG(8, uint64(f)))
		for _, size := range []struct{ m, n, k int }{
			{tier.kernels().minGrouped, 1, max(group, f.Block())}, {15, 70, kc + 256}, {16, 64, 512}, {17, 32, 256}, {20, 33, 256}, {minGroupedRows, 1, max(group, f.Block())}, {minGroupedRows + 1, 33, 256}, {66, 32, kc}, {69, 70, kc + 256}, {257, 37, 256}, {mcGrouped + 8, 64, 2*kc + 512},
		} {
			if !Grouped(tier, size.m) {
				continue
			}
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
