package vec

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// TestBytes: bytes times their scales are what quant decodes, of NVFP4_ROW to the rounding of scales and of codebooks to half a 127th of a block's largest.
func TestBytes(t *testing.T) {
	for _, f := range []quant.Format{quant.NF4, quant.FP4, quant.NVFP4_ROW} {
		for i, n := range []int{32, 64, 96, 1024, 4608} {
			if n%f.Block() != 0 {
				continue
			}
			row, want := expandedRow(t, f, n, uint64(i))
			for _, tier := range gemm.Tiers() {
				o := For(tier)
				makes, sub16 := o.BytesOf(f)
				if !makes {
					continue
				}
				every := 32
				if sub16 {
					every = 16
				}
				codes, scales := make([]byte, n+1), make([]float32, n/16+1)
				codes[n], scales[n/every] = 7, 7
				o.Bytes(f, codes[:n], scales, row)
				for j := range n {
					got, allowed := float32(int8(codes[j]))*scales[j/every], max(want[j], -want[j])*1e-6
					if f != quant.NVFP4_ROW {
						largest := math.Float32frombits(binary.LittleEndian.Uint32(row[j/64*36:]))
						allowed = largest * (0.5001 / 127)
					}
					if diff := got - want[j]; !(diff <= allowed && -diff <= allowed) {
						t.Fatalf("%s, %s, %d numbers: number %d is %v instead of %v", tier, f, n, j, got, want[j])
					}
				}
				if codes[n] != 7 || scales[n/every] != 7 {
					t.Errorf("%s, %s, %d numbers: what lies behind them was written", tier, f, n)
				}
			}
		}
	}
}
