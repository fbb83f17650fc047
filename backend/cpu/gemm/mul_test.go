package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// actFormats are the activations that weights of format f can be multiplied with.
func actFormats(tier Tier, f quant.Format) []ActFormat {
	if best := ActFormatOf(tier, f); best != BFloat16 {
		return []ActFormat{best}
	}
	return []ActFormat{Float32, BFloat16}
}

// eachProduct runs a test under every tier, for every weight format and every format of activations it takes.
func eachProduct(t *testing.T, test func(t *testing.T, tier Tier, f quant.Format, a ActFormat)) {
	eachTier(t, func(t *testing.T, tier Tier) {
		for _, f := range append(quant.ReadFormats(), quant.UINT4) {
			if _, packed := packings[f]; !packed && f.Block() > 1 {
				continue // of another package's kernels
			}
			for _, a := range actFormats(tier, f) {
				switch tier {
				case AVX512BF16, BF16:
					if a != BFloat16 {
						continue // the same kernels as under AVX512 or I8MM
					}
				case DotProd, I8MM:
					if a == Float32 {
						continue // the same kernels as under NEON
					}
				}
				t.Run(fmt.Sprintf("%v/%d", f, a), func(t *testing.T) { test(t, tier, f, a) })
			}
		}
	})
}

// few thins a range of sizes out under the plain Go kernels, which are slow; the others see every one.
func few(tier Tier, n int) bool { return tier == Generic && n%37 != 1 && n > 8 }

// TestRows multiplies 1 to 257 rows of activations: every tile size, with and without unpacking.
func TestRows(t *testing.T) {
	eachProduct(t, func(t *testing.T, tier Tier, f quant.Format, format ActFormat) {
		rng := rand.New(rand.NewPCG(1, uint64(f)))
		const most, n, k = 257, 33, 512
		tensor := randomTensor(rng, f, n, k)
		w, acts := pack(t, tier, tensor), fillActs(tier, format, randomActs(rng, most, k), most, k)
		ref, s := newReference(tensor, acts), NewScratch()
		for m := 1; m <= most; m++ {
			if few(tier, m) || m > 64 && m%11 != 4 {
				continue
			}
			out := make([]float32, m*n)
			Mul(tier, out, n, w, 0, n, acts, 0, m, s)
			if err := ref.check(out, n, m, n); err != nil {
				t.Fatalf("%d rows: %v", m, err)
			}
		}
	})
}

// TestFeatures multiplies 1 to 257 output features, few of which NR divides, into an out that is wider than they
// are: nothing beyond them may be written.
func TestFeatures(t *testing.T) {
	eachProduct(t, func(t *testing.T, tier Tier, f quant.Format, format ActFormat) {
		rng := rand.New(rand.NewPCG(2, uint64(f)))
		const most, k, ld = 257, 256, 260
		for _, m := range []int{2, 19} {
			acts := fillActs(tier, format, randomActs(rng, m, k), m, k)
			whole := randomTensor(rng, f, most, k)
			ref, s := newReference(whole, acts), NewScratch()
			for n := 1; n <= most; n++ {
				if few(tier, n) || m > 2 && n%32 > 5 {
					continue
				}
				w := pack(t, tier, whole.RowSpan(0, n))
				out := make([]float32, m*ld)
				for i := range out {
					out[i] = 7
				}
				Mul(tier, out, ld, w, 0, n, acts, 0, m, s)
				if err := ref.check(out, ld, m, n); err != nil {
					t.Fatalf("%d features: %v", n, err)
				}
				for i, v := range out {
					if i%ld >= n && v != 7 {
						t.Fatalf("%d features: out[%d] is %g, and must not have been touched", n, i, v)
					}
				}
			}
		}
	})
}

// TestLengths multiplies rows of every length that the format allows up to 257, and of lengths around the cache blocks.
func TestLengths(t *testing.T) {
	eachProduct(t, func(t *testing.T, tier Tier, f quant.Format, format ActFormat) {
		rng := rand.New(rand.NewPCG(3, uint64(f)))
		panel := f.Block()
		lengths := []int{kc + panel, kcDirect - panel, kcDirect + 2*panel}
		for k := panel; k <= 257; k += panel {
			lengths = append(lengths, k)
		}
		for _, k := range lengths {
			if k <= 0 || k%panel != 0 || few(tier, k) && panel == 1 {
				continue
			}
			const n = 37
			tensor := randomTensor(rng, f, n, k)
			w := pack(t, tier, tensor)
			for _, m := range []int{1, 20} {
				acts := fillActs(tier, format, randomActs(rng, m, k), m, k)
				out := make([]float32, m*n)
				Mul(tier, out, n, w, 0, n, acts, 0, m, NewScratch())
				if err := newReference(tensor, acts).check(out, n, m, n); err != nil {
					t.Fatalf("%d rows of %d: %v", m, k, err)
				}
			}
		}
	})
}

// TestRanges fills out in parts, over stale results: ranges of features and of rows as goroutines would take them.
func TestRanges(t *testing.T) {
	eachProduct(t, func(t *testing.T, tier Tier, f quant.Format, format ActFormat) {
		rng := rand.New(rand.NewPCG(4, uint64(f)))
		const m, n, k = 23, 100, 256
		tensor := randomTensor(rng, f, n, k)
		w, acts := pack(t, tier, tensor), fillActs(tier, format, randomActs(rng, m, k), m, k)
		out := make([]float32, m*n)
		for i := range out {
			out[i] = 3
		}
		for _, rows := range [][2]int{{0, 5}, {5, 23}} {
			for _, features := range [][2]int{{0, 32}, {32, 96}, {96, 100}, {96, 96}} {
				Mul(tier, out, n, w, features[0], features[1], acts, rows[0], rows[1], NewScratch())
			}
		}
		if err := newReference(tensor, acts).check(out, n, m, n); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNoAllocation holds the promise that a step allocates nothing.
func TestNoAllocation(t *testing.T) {
	eachProduct(t, func(t *testing.T, tier Tier, f quant.Format, format ActFormat) {
		rng := rand.New(rand.NewPCG(5, uint64(f)))
		const n, k = 40, 256
		w, s := pack(t, tier, randomTensor(rng, f, n, k)), NewScratch()
		for _, m := range []int{1, 20} {
			x := randomActs(rng, m, k)
			acts, out := fillActs(tier, format, x, m, k), make([]float32, m*n)
			if got := testing.AllocsPerRun(3, func() { // whole ones only count, not one that the runtime made meanwhile
				acts.Fill(tier, x, 0, m)
				Mul(tier, out, n, w, 0, n, acts, 0, m, s)
			}); got != 0 {
				t.Errorf("%d rows: %v allocations", m, got)
			}
		}
	})
}
