package vec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// TestExpandSparse: every tier makes of random blocks, with every mask, what quant decodes, bit for bit.
func TestExpandSparse(t *testing.T) {
	for _, f := range []quant.Format{quant.BF16_2_4, quant.F16_2_4} {
		const n = 64 * 36
		r, x, src := rand.New(rand.NewPCG(1, 1)), make([]float32, n), make([]byte, f.RowBytes(n))
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		if err := quant.Encode(f, src, x); err != nil {
			t.Fatal(err)
		}
		quant.Decode(f, x, src)
		for _, tier := range gemm.Tiers() {
			got := make([]float32, n)
			if For(tier).ExpandSparse(f, got, src); !slices.Equal(got, x) {
				t.Errorf("%s, %s: other numbers", tier, f)
			}
		}
	}
}

func BenchmarkExpandSparse(b *testing.B) {
	const n = 4096
	src, dst := make([]byte, quant.BF16_2_4.RowBytes(n)), make([]float32, n)
	if err := quant.Encode(quant.BF16_2_4, src, dst); err != nil {
		b.Fatal(err)
	}
	for _, tier := range gemm.Tiers() {
		b.Run(fmt.Sprint(tier), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				For(tier).ExpandSparse(quant.BF16_2_4, dst, src)
			}
		})
	}
}
