package quant

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSparseLayout: masks and values are where compressed-tensors' sparse-24-bitmask has them: bit j of byte i for number 8i+j, values in order.
func TestSparseLayout(t *testing.T) {
	x := make([]float32, 64)
	x[1], x[2] = 3, -5                  // of the first four
	x[4], x[5], x[6], x[7] = 1, 8, 2, 8 // of the second the two eights
	x[60], x[63] = -0.5, 0.25
	b := make([]byte, BF16_2_4.RowBytes(64))
	if err := Encode(BF16_2_4, b, x); err != nil {
		t.Fatal(err)
	}
	if b[0] != 0b1010_0110 || b[7] != 0b1001_0011 {
		t.Errorf("masks %08b and %08b", b[0], b[7])
	}
	got := []float32{}
	for i := range 4 {
		got = append(got, BF16ToF32(order.Uint16(b[8+2*i:])))
	}
	if want := []float32{3, -5, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("values %v, want %v", got, want)
	}
	if CheckSparse(b[:8]) != -1 || CheckSparse([]byte{0x33, 0x37}) != 1 {
		t.Error("masks are not checked")
	}
}

// TestSparseStays: numbers that are 2:4 sparse and of the values' type come back bit for bit; of others the two largest of four do.
func TestSparseStays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range []Format{BF16_2_4, F16_2_4} {
		x, want, got, b := make([]float32, 256), make([]float32, 256), make([]float32, 256), make([]byte, f.RowBytes(256))
		for i := range x {
			x[i] = float32(r.IntN(255) - 127)
		}
		for g := 0; g < len(x); g += 4 {
			kept := keepTwo((*[4]float32)(x[g:]), nil)
			for j := range 4 {
				if kept>>j&1 != 0 {
					want[g+j] = x[g+j]
				}
			}
		}
		for _, from := range [][]float32{x, want} {
			if err := Encode(f, b, from); err != nil {
				t.Fatal(err)
			}
			if Decode(f, got, b); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", f, got, want)
			}
		}
	}
}

// TestSparseWeighted: with importances those are kept whose loss costs the most, and zeros last.
func TestSparseWeighted(t *testing.T) {
	for _, c := range []struct {
		x    [4]float32
		by   []float32
		want uint8
	}{
		{[4]float32{1, 2, 3, -4}, nil, 0b1100},
		{[4]float32{1, 2, 3, -4}, []float32{100, 1, 1, 1}, 0b1001},
		{[4]float32{1, 2, 3, -4}, []float32{100, 0, 0, 0}, 0b1001},
		{[4]float32{0, 0.5, 0, 2}, []float32{9, 0, 9, 0}, 0b1010},
		{[4]float32{2, 2, 2, 2}, []float32{1, 1, 1, 1}, 0b0011},
	} {
		if got := keepTwo(&c.x, c.by); got != c.want {
			t.Errorf("%v by %v: %04b, want %04b", c.x, c.by, got, c.want)
		}
	}
}

// TestCheckSparseBlocks: every four numbers of a mask are looked at, for more than two that are stored and for fewer.
func TestCheckSparseBlocks(t *testing.T) {
	x := make([]float32, 192)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	for _, f := range []Format{BF16_2_4, F16_2_4} {
		b := make([]byte, f.RowBytes(len(x)))
		if err := Encode(f, b, x); err != nil {
			t.Fatal(err)
		}
		if at := CheckSparseBlocks(b); at != -1 {
			t.Errorf("%s: numbers from %d on are not two of four", f, at)
		}
		for g := 0; g < len(x); g += 4 {
			at := &b[g/64*72+g%64/8]
			for four := range byte(16) {
				if before := *at; bits.OnesCount8(four) != 2 {
					*at = before&^(15<<(g%8)) | four<<(g%8)
					if got := CheckSparseBlocks(b); got != g {
						t.Errorf("%s: of numbers %d to %d those of mask %04b are stored, and what is wrong is said to be at %d", f, g, g+3, four, got)
					}
					*at = before
				}
			}
		}
	}
}
