package recipe

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestSlice: rows and columns of each of a few of several matrices; padding beyond the rows; windows where nothing is left out.
func TestSlice(t *testing.T) {
	all := files{"m": counting(t, quant.F32, 6, 4, 0), "q": counting(t, quant.Q8_0, 2, 64, 0), "t": counting(t, quant.F32, 2, 3, 0)}
	m := Slice{Of: Tensor("m"), Count: 2, Matrices: 2, Rows: 3, Cols: 4}
	for _, c := range []struct {
		r      Recipe
		text   string
		window bool // of all its rows together
		want   []float32
	}{
		{Slice{Of: Tensor("m"), Count: 1, Matrices: 1, Row: 1, Rows: 2, Cols: 4}, "m[1:3, 0:4]", true, []float32{4, 5, 6, 7, 8, 9, 10, 11}},
		{Slice{Of: Tensor("m"), Count: 1, Matrices: 1, Rows: 2, Col: 1, Cols: 2}, "m[0:2, 1:3]", false, []float32{1, 2, 5, 6}},
		{m, "m[0:2, 0:3, 0:4]", true, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
		{Slice{Of: Tensor("m"), Count: 3, Matrix: 1, Matrices: 2, Row: 1, Rows: 1, Col: 2, Cols: 2}, "m[1:3, 1:2, 2:4]", false, []float32{14, 15, 22, 23}},
		{Slice{Of: Tensor("m"), Count: 1, Matrices: 1, Row: 5, Rows: 2, Col: 2, Cols: 2}, "m[5:7, 2:4]", false, []float32{22, 23, 0, 0}},
		{Slice{Of: Tensor("m"), Count: 1, Matrices: 1, Row: 5, Rows: 2, Cols: 4}, "m[5:7, 0:4]", false, []float32{20, 21, 22, 23, 0, 0, 0, 0}},
		{Slice{Of: Tensor("m"), Count: 1, Matrices: 1, Row: 9, Rows: 1, Cols: 4}, "m[9:10, 0:4]", false, []float32{0, 0, 0, 0}},
		{Slice{Of: Transpose{Tensor("t"), 1}, Count: 1, Matrices: 1, Row: 1, Rows: 2, Col: 1, Cols: 1}, "transpose(t)[1:3, 1:2]", false, []float32{4, 5}},
	} {
		got, err := Open(c.r, all)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if c.r.String() != c.text {
			t.Errorf("the text is %s; want %s", c.r, c.text)
		}
		if w := got.from.window(0, got.Rows); (w != nil) != c.window {
			t.Errorf("%s is a window: %t", c.text, w != nil)
		}
		for _, n := range []int{1, got.Rows} {
			parts, err := got.Parts(n)
			if err != nil {
				t.Fatal(err)
			}
			if x := decode(parts); !slices.Equal(x, c.want) {
				t.Errorf("%s in %d parts: %v; want %v", c.text, n, x, c.want)
			}
		}
	}
	blocks, err := Open(Slice{Of: Tensor("q"), Count: 1, Matrices: 1, Row: 1, Rows: 1, Col: 32, Cols: 32}, all)
	if err != nil {
		t.Fatal(err)
	}
	if parts, err := blocks.Parts(1); err != nil || string(parts[0].Data) != string(all["q"].Data[3*34:4*34]) {
		t.Errorf("a block of columns is not the file's, %v", err)
	}
	for want, r := range map[string]Recipe{
		"m has 4 columns, and 2 to 5 are wanted":                 Slice{Of: Tensor("m"), Count: 1, Matrices: 1, Rows: 1, Col: 2, Cols: 4},
		"q has columns in blocks of 32, and 16 to 47 are wanted": Slice{Of: Tensor("q"), Count: 1, Matrices: 1, Rows: 1, Col: 16, Cols: 32},
		"which are not 4 matrices":                               Slice{Of: Tensor("m"), Count: 4, Matrices: 1, Rows: 1, Cols: 4},
		"m is 2 matrices, and 1 to 2 are wanted":                 Slice{Of: Tensor("m"), Count: 2, Matrix: 1, Matrices: 2, Rows: 1, Cols: 4},
	} {
		if _, err := Open(r, all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestSliceOfScaledRows: a part of the columns of rows that have one scale keeps it.
func TestSliceOfScaledRows(t *testing.T) {
	m := quant.Tensor{Format: quant.INT8, Rows: 2, Cols: 32, Data: make([]byte, 2*36)}
	for r := range 2 {
		for i := range 32 {
			m.Data[36*r+i] = byte(32*r + i)
		}
		binary.LittleEndian.PutUint32(m.Data[36*r+32:], math.Float32bits(float32(2+r)))
	}
	x, err := Open(Slice{Of: Tensor("m"), Count: 1, Matrices: 1, Rows: 2, Col: 16, Cols: 16}, files{"m": m})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := x.Parts(2)
	if err != nil {
		t.Fatal(err)
	}
	for r, part := range parts {
		for i, v := range decode([]quant.Tensor{part}) {
			if want := float32((32*r + 16 + i) * (2 + r)); v != want {
				t.Errorf("number %d of row %d is %g, not %g", i, r, v, want)
			}
		}
	}
}
