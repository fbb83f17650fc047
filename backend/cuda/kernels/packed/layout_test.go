package packed

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// random is a weight of random codes and scales, with the numbers it stands for.
func random(t testing.TB, rnd *rand.Rand, f quant.Format, rows, cols int) (quant.Tensor, []float32) {
	t.Helper()
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(rnd.NormFloat64()) / 32
	}
	data := make([]byte, f.RowBytes(cols)*int64(rows))
	if err := quant.Encode(f, data, x); err != nil {
		t.Fatal(err)
	}
	w, err := quant.NewTensor(f, rows, cols, data)
	if err != nil {
		t.Fatal(err)
	}
	quant.Decode(f, x, data)
	return w, x
}

// number reads a number back out of packed tiles, by the words of layout.go.
func number(tiles []byte, cols, row, column int) float32 {
	unit := tiles[(row/16*tileUnits(cols)+column/128)*unitBytes:][:unitBytes]
	half, g, place, t, i := row%16/8, row%8, column%128/32, column%32/8, column%8
	scale := quant.F16ToF32(binary.LittleEndian.Uint16(unit[unitBytes-128+g*16+half*8+place*2:]))
	lane := 4*g + t
	word := binary.LittleEndian.Uint32(unit[half*512+lane*16+place*4:])
	return scale * float32(int(word>>(i/2*4+i%2*16)&15)-8)
}

func TestPack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, f := range []quant.Format{quant.Q4_0} {
		for _, size := range [][2]int{{16, 128}, {2, 256}, {37, 512}, {50, 96}} {
			w, want := random(t, rnd, f, size[0], size[1])
			n, bytes := Tiles(w)
			tiles := make([]byte, n*bytes)
			for i := range n { // one by one, as several goroutines do
				Pack(tiles[i*bytes:], w, i, i+1)
			}
			for i, x := range want {
				if got := number(tiles, size[1], i/size[1], i%size[1]); got != x {
					t.Fatalf("%s %v: number %d of row %d is %g, want %g", f, size, i%size[1], i/size[1], got, x)
				}
			}
		}
	}
}
