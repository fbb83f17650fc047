package convert

import (
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// BenchmarkDummy makes a matrix of 4096 × 4096 and drops it: what remains of ridge dummy is the disk.
func BenchmarkDummy(b *testing.B) {
	for _, f := range []quant.Format{quant.BF16, quant.Q8_0, quant.Q4_0, quant.Q4_K} {
		b.Run(f.String(), func(b *testing.B) {
			t := &tensor{name: "w.weight", shape: []int{4096, 4096}, format: f, as: f}
			if err := (pools{}).fill(t); err != nil {
				b.Fatal(err)
			}
			benchmarkWrite(b, t)
		})
	}
}

// BenchmarkConvert encodes a matrix of 4096 × 4096 in BF16.
func BenchmarkConvert(b *testing.B) {
	from := &tensor{name: "w.weight", shape: []int{4096, 4096}, format: quant.BF16, as: quant.BF16}
	if err := (pools{}).fill(from); err != nil {
		b.Fatal(err)
	}
	data := from.rows(make([]byte, 4096*4096*2), 0, 4096)
	for _, f := range []quant.Format{quant.F16, quant.Q8_0, quant.Q4_0, quant.Q4_K, quant.Q6_K} {
		b.Run(f.String(), func(b *testing.B) {
			t := &tensor{name: "w.weight", shape: from.shape, format: quant.BF16, as: f}
			t.rows = func(_ []byte, from, to int) []byte { return data[from*8192 : to*8192] }
			benchmarkWrite(b, t)
		})
	}
}

func benchmarkWrite(b *testing.B, t *tensor) {
	b.SetBytes(t.bytes())
	for b.Loop() {
		if err := t.write(func([]byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(4096*4096*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mweights/s")
}
