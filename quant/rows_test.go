package quant

import (
	"math"
	"strings"
	"testing"
)

// TestScaledRows holds FP8 and INT8 to their bounds, which count from the largest number of the row.
func TestScaledRows(t *testing.T) {
	for _, f := range []Format{FP8, INT8} {
		for name, x := range hardRows() {
			b, back, m := make([]byte, f.RowBytes(len(x))), make([]float32, len(x)), 0.0
			if err := Encode(f, b, x); err != nil {
				t.Fatalf("%s, row %q: %v", f, name, err)
			}
			Decode(f, back, b)
			for _, v := range x {
				m = max(m, math.Abs(float64(v)))
			}
			bound := descriptors[f].bound
			for i, v := range x {
				if off := math.Abs(float64(v) - float64(back[i])); !(off <= bound.relative*m+bound.absolute) {
					t.Errorf("%s, row %q: number %d, %v in a row up to %v, came back as %v", f, name, i, v, m, back[i])
					break
				}
			}
		}
	}
}

// TestScaledRowLayout: codes first, then the scale, so that the largest number is the largest code.
func TestScaledRowLayout(t *testing.T) {
	x := make([]float32, 16)
	x[0], x[1], x[2] = -896, 448, 1
	for f, want := range map[Format][3]byte{FP8: {0xfe, 0x76, 0x30}, INT8: {0x81, 64, 0}} {
		b := make([]byte, f.RowBytes(16))
		if err := Encode(f, b, x); err != nil {
			t.Fatal(err)
		}
		top := map[Format]float32{FP8: 448, INT8: 127}[f]
		if d := math.Float32frombits(order.Uint32(b[16:])); [3]byte(b) != want || math.Abs(float64(d*top)-896) > 1e-3 {
			t.Errorf("%s: codes % x and scale %v, want % x and %v", f, b[:3], d, want, 896/top)
		}
	}
}

func TestScaledRowsRefuse(t *testing.T) {
	for _, f := range []Format{FP8, INT8} {
		x := make([]float32, 16)
		x[3] = float32(math.NaN())
		if err := Encode(f, make([]byte, f.RowBytes(16)), x); err == nil || !strings.Contains(err.Error(), "number 3 is NaN") {
			t.Errorf("%s: %v for a row with NaN", f, err)
		}
		if _, err := (Tensor{Format: F32, Rows: 1, Cols: 8, Data: make([]byte, 32)}).As(f); err == nil || !strings.Contains(err.Error(), "rows of 8 numbers") {
			t.Errorf("%s: %v for rows of 8", f, err)
		}
	}
}

// TestAs: the same numbers in another format, row by row, and which row cannot be.
func TestAs(t *testing.T) {
	x := make([]float32, 3*32)
	for i := range x {
		x[i] = float32(i%32) / 31 * float32(1+i/32)
	}
	whole := Tensor{Format: F32, Rows: 3, Cols: 32, Data: make([]byte, 4*len(x))}
	encodeF32(whole.Data, x)
	for _, f := range []Format{FP8, INT8, Q8_0, F16} {
		got, err := whole.As(f)
		if err != nil {
			t.Fatal(err)
		}
		for r := range 3 {
			back := make([]float32, 32)
			Decode(f, back, got.Row(r))
			for i, v := range back {
				if math.Abs(float64(v-x[32*r+i])) > 0.04*float64(1+r) {
					t.Errorf("%s: number %d of row %d is %v, want about %v", f, i, r, v, x[32*r+i])
				}
			}
		}
	}
	x[70] = float32(math.Inf(1))
	encodeF32(whole.Data, x)
	if _, err := whole.As(FP8); err == nil || !strings.Contains(err.Error(), "row 2: ") {
		t.Errorf("%v for an infinite number in row 2", err)
	}
}
