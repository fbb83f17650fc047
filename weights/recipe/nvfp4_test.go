package recipe

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestNVFP4: the numbers of a GGUF matrix in NVFP4 times the scale of its matrix, and the same as a checkpoint of the hub has them.
func TestNVFP4(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const rows, cols = 6, 128
	blocks := quant.Tensor{Format: quant.NVFP4, Rows: rows, Cols: cols, Data: make([]byte, rows*cols/64*36)}
	for i := range blocks.Data {
		blocks.Data[i] = byte(r.Uint32())
		if i%36 < 4 {
			blocks.Data[i] = byte(r.IntN(120))
		}
	}
	scales := quant.Tensor{Format: quant.F32, Rows: 1, Cols: 3, Data: make([]byte, 12)}
	for i, s := range []float32{0.25, 3, 0.125} {
		binary.LittleEndian.PutUint32(scales.Data[4*i:], math.Float32bits(s))
	}
	all := files{"w": blocks, "s": scales}
	m, err := Open(ScaledBlocks{"w", "s"}, all)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := m.Parts(3)
	if err != nil {
		t.Fatal(err)
	}
	plain, got := make([]float32, cols), make([]float32, cols)
	for i := range rows {
		quant.Decode(quant.NVFP4, plain, blocks.Row(i))
		quant.Decode(quant.NVFP4_ROW, got, parts[i/2].Row(i%2))
		for j, x := range plain {
			if want := x * []float32{0.25, 3, 0.125}[i/2]; got[j] != want {
				t.Fatalf("number %d of row %d is %g, not %g", j, i, got[j], want)
			}
		}
	}
	all["s"] = quant.Tensor{Format: quant.F32, Rows: 1, Cols: 4, Data: make([]byte, 16)}
	if _, err := Open(ScaledBlocks{"w", "s"}, all); err == nil || !strings.Contains(err.Error(), "tensor s is not one scale") {
		t.Errorf("four scales for six rows: %v", err)
	}
}

// TestNVFP4Checkpoint: pairs of codes lie side by side, and the scale of the tensor multiplies or divides.
func TestNVFP4Checkpoint(t *testing.T) {
	codes := make([]byte, 8)
	codes[0], codes[7] = 0x71, 0xa0 // numbers 0 and 1: 0.5 and 6; number 15: -1
	global := make([]byte, 4)
	binary.LittleEndian.PutUint32(global, math.Float32bits(4))
	f := rawFiles{"c": {"U8", []int{1, 8}, codes}, "s": {"F8_E4M3", []int{1, 1}, []byte{quant.F32ToE4M3(2)}}, "g": {"F32", []int{1}, global}}
	for divides, by := range map[bool]float32{false: 8, true: 0.5} {
		m, err := Open(NVFP4{"c", "s", "g", divides}, f)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := m.Parts(1)
		if err != nil {
			t.Fatal(err)
		}
		if x := decode(parts); x[0] != 0.5*by || x[1] != 6*by || x[15] != -by || x[2] != 0 {
			t.Errorf("divides %v: %v", divides, x)
		}
	}
	f["s"].Data[0] = 0x7f
	if _, err := Open(NVFP4{"c", "s", "g", false}, f); err == nil || !strings.Contains(err.Error(), "scale 0 of tensor s is NaN") {
		t.Errorf("a NaN: %v", err)
	}
}
