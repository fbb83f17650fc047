package moe

import (
	"bytes"
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

// TestPackInBF16 reads numbers back by the layout that layout.go documents, panel by panel.
func TestPackInBF16(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, f := range []quant.Format{quant.BF16, quant.F16, quant.Q5_0} {
		const rows, cols = 150, 288
		w, x := matrix(t, rnd, f, rows, cols)
		n, size := Panels(w)
		if want := Bytes(f, rows, cols); n != 2 || int64(n*size) != want {
			t.Fatalf("%s: %d panels of %d bytes, and %d bytes in all", f, n, size, want)
		}
		packed := make([]byte, n*size)
		for s := range n {
			Pack(packed[s*size:(s+1)*size], w, quant.BF16, s, s+1)
		}
		for r := range n * panelRows {
			for c := range units(cols) * columns {
				at := ((r/panelRows*units(cols)*2+c/pieceCols)*panelPieces+r%panelRows/8)*pieceBytes + c%pieceCols/8*128 + r%8*16 + c%8*2
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

// TestPackInterleaved compares with Pack of one matrix whose rows are interleaved already.
func TestPackInterleaved(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, f := range []quant.Format{quant.BF16, quant.F16, quant.Q4_0, quant.Q4_K, quant.Q6_K, quant.Q8_0, quant.MXFP4} {
		const rows, cols = 168, 512
		gate, _ := matrix(t, rnd, f, rows, cols)
		up, _ := matrix(t, rnd, f, rows, cols)
		var data []byte
		for r := 0; r < rows; r += 8 {
			for _, w := range []quant.Tensor{gate, up} {
				for i := range 8 {
					data = append(data, w.Row(r+i)...)
				}
			}
		}
		both, err := quant.NewTensor(f, 2*rows, cols, data)
		if err != nil {
			t.Fatal(err)
		}
		n, size := Panels(both)
		want, got := make([]byte, n*size), make([]byte, n*size)
		Pack(want, both, StoredFormat(f), 0, n)
		PackInterleaved(got, gate, up, StoredFormat(f), 0, 1)
		PackInterleaved(got[size:], gate, up, StoredFormat(f), 1, n)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: PackInterleaved differs from Pack of the interleaved matrix", f)
		}
	}
}
