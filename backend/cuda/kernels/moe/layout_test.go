package moe

import (
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// matrix is random numbers in a format, with what they are.
func matrix(t testing.TB, rnd *rand.Rand, f quant.Format, rows, cols int) (quant.Tensor, []float32) {
	t.Helper()
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(rnd.NormFloat64()) / 16
	}
	data := make([]byte, int64(rows)*f.RowBytes(cols))
	for r := range rows {
		size := int(f.RowBytes(cols))
		if err := quant.Encode(f, data[r*size:(r+1)*size], x[r*cols:(r+1)*cols]); err != nil {
			t.Fatal(err)
		}
	}
	w, err := quant.NewTensor(f, rows, cols, data)
	if err != nil {
		t.Fatal(err)
	}
	quant.Decode(f, x, data)
	return w, x
}

// TestPackInBF16 reads numbers back by the words of layout.go, slab by slab.
func TestPackInBF16(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, f := range []quant.Format{quant.BF16, quant.F16, quant.Q5_0} {
		const rows, cols = 150, 288
		w, x := matrix(t, rnd, f, rows, cols)
		n, bytes := Slabs(w)
		if want := Bytes(f, rows, cols); n != 2 || int64(n*bytes) != want {
			t.Fatalf("%s: %d slabs of %d bytes, and %d bytes in all", f, n, bytes, want)
		}
		packed := make([]byte, n*bytes)
		for s := range n {
			Pack(packed[s*bytes:(s+1)*bytes], w, quant.BF16, s, s+1)
		}
		for r := range n * slabRows {
			for c := range units(cols) * columns {
				in := c % columns
				block, i, lane, e := in/32, in%32/8, 4*(r%8)+in%8/2, in%2
				at := ((r/slabRows*units(cols)+c/columns)*slabTiles*2+r%slabRows/8)*halfBytes + block*512 + lane*16 + i*4 + e*2
				want := float32(0)
				if r < rows && c < cols {
					want = quant.BF16ToF32(quant.F32ToBF16(x[r*cols+c]))
				}
				if got := quant.BF16ToF32(uint16(packed[at]) | uint16(packed[at+1])<<8); got != want {
					t.Fatalf("%s: row %d, column %d is %g and should be %g", f, r, c, got, want)
				}
			}
		}
	}
}
