package packed

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/quant"
)

// random is a weight of random codes and scales, with the numbers it stands for.
func random(t testing.TB, rnd *rand.Rand, f quant.Format, rows, cols int) (quant.Tensor, []float32) {
	t.Helper()
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(rnd.NormFloat64()) / 32
	}
	each := int(f.RowBytes(cols))
	data := make([]byte, each*rows)
	if f.Descriptor().CodeGroup > 0 {
		testkit.RandomBlocks(rnd, f, data)
		quant.Decode(f, x, data)
		return quant.Tensor{Format: f, Rows: rows, Cols: cols, Data: data}, x
	}
	var wg sync.WaitGroup
	for r := range rows {
		wg.Go(func() {
			if err := quant.Encode(f, data[r*each:(r+1)*each], x[r*cols:(r+1)*cols]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w, err := quant.NewTensor(f, rows, cols, data)
	if err != nil {
		t.Fatal(err)
	}
	for r := range rows {
		quant.Decode(f, x[r*cols:(r+1)*cols], w.Row(r))
	}
	return w, x
}

// formats are all that Has.
func formats() []quant.Format {
	var all []quant.Format
	for _, f := range append(quant.ReadFormats(), quant.INT4, quant.UINT4, quant.NVFP4_ROW, quant.FP8_BLOCK, quant.NF4, quant.FP4) {
		if Has(f) {
			all = append(all, f)
		}
	}
	return all
}

// number reads a number back out of packed panels, by the words of layout.go.
func number(panels []byte, f quant.Format, cols, row, column int) float32 {
	l := layouts[f]
	half := panels[((row/128*tileUnits(cols)+column/128)*16+row%128/8)*l.bytes:][:l.bytes]
	in := column % 128
	block, i, t, e := in/32, in%32/8, in%8/2, in%2
	lane, at := 4*(row%8)+t, l.scales+row%8*l.each
	scale := func(n int) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(half[at+2*n:])) }
	four := func() uint32 {
		return binary.LittleEndian.Uint32(half[lane*16+block*4:]) >> (4*i + 16*e) & 15
	}
	levels := [16]float32{0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6}
	switch f {
	case quant.INT4:
		return scale(0) * float32(int(four())-8)
	case quant.Q4_0:
		return scale(block) * float32(int(four())-8)
	case quant.NVFP4_ROW:
		return scale(in/16) * levels[four()]
	case quant.NF4, quant.FP4:
		return scale(block) * f.Descriptor().Codebook[four()]
	case quant.FP8_BLOCK:
		return scale(0) / 256 * quant.E4M3ToF32(half[block/2*512+lane*16+block%2*8+2*i+e])
	case quant.BF16_2_4, quant.F16_2_4:
		group := in % 32 / 4 // of the block's eight fours; lane 4g + t has those of t and t + 4
		at := block/2*512 + (4*(row%8)+group%4)*16 + block%2*8 + group/4*4
		places := binary.LittleEndian.Uint16(half[l.scales+row%8*16+group/4*8+block*2:]) >> (group % 4 * 4)
		for i := range 2 {
			if int(places>>(2*i)&3) == in%4 {
				return quant.BF16ToF32(binary.LittleEndian.Uint16(half[at+2*i:]))
			}
		}
		return 0
	case quant.Q4_1, quant.Q4_K, quant.UINT4:
		return scale(block)*float32(int(four())-8) + scale(4+block)
	case quant.MXFP4:
		return quant.BF16ToF32(binary.LittleEndian.Uint16(half[at+2*block:])) * levels[four()]
	case quant.IQ1_M, quant.IQ2_XS, quant.IQ2_S, quant.NVFP4:
		return scale(in/16) * float32(int(half[block/2*512+lane*16+block%2*8+2*i+e])-128)
	case quant.Q8_0, quant.IQ1_S, quant.IQ2_XXS, quant.IQ3_XXS, quant.IQ3_S, quant.TQ1_0, quant.TQ2_0:
		return scale(block) * float32(int(half[block/2*512+lane*16+block%2*8+2*i+e])-128)
	}
	two := binary.LittleEndian.Uint32(half[512+lane*8+block/2*4:]) >> (8*(i/2+2*e) + block%2*4 + i%2*2) & 3
	return scale(in/16) * float32(int(four()|two<<4)-32)
}

func TestPack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, f := range formats() {
		tolerance := 0.0
		if f.Block() > 128 || f == quant.Q4_1 || f > quant.IQ4_XS && f != quant.BF16_2_4 { // their scales are rounded to half precision
			tolerance = 1e-3
		}
		for _, size := range [][2]int{{16, 128}, {2, 256}, {37, 512}, {50, 96}, {21, 384}, {17, 768}, {300, 256}} {
			if size[1]%f.Block() != 0 {
				continue
			}
			w, want := random(t, rnd, f, size[0], size[1])
			n, bytes := Panels(w)
			panels := make([]byte, n*bytes)
			for i := range n { // one by one, as several goroutines do
				Pack(panels[i*bytes:], w, i, i+1)
			}
			for i, x := range want {
				if got := number(panels, f, size[1], i/size[1], i%size[1]); math.Abs(float64(got-x)) > tolerance*max(1, math.Abs(float64(x))) {
					t.Fatalf("%s %v: number %d of row %d is %g, want %g", f, size, i%size[1], i/size[1], got, x)
				}
			}
		}
	}
}

// BenchmarkPack counts weights, not bytes.
func BenchmarkPack(b *testing.B) {
	for _, f := range formats() {
		b.Run(f.String(), func(b *testing.B) {
			const rows, cols = 256, 4096
			w, _ := quant.NewTensor(f, rows, cols, make([]byte, f.RowBytes(cols)*rows))
			n, bytes := Panels(w)
			dst := make([]byte, n*bytes)
			b.SetBytes(rows * cols)
			for b.Loop() {
				Pack(dst, w, 0, n)
			}
		})
	}
}
