package quant

import (
	"slices"
	"testing"
)

// TestGather takes two matrices of 2 × 4, one below the other, apart by columns.
func TestGather(t *testing.T) {
	x := []float32{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17}
	data := make([]byte, 4*len(x))
	if err := Encode(F32, data, x); err != nil {
		t.Fatal(err)
	}
	m, err := NewTensor(F32, 4, 4, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		columns        Columns
		cols, from, to int
		want           []float32
	}{
		{Columns{0, 1, true}, 2, 0, 8, []float32{0, 4, 1, 5, 2, 6, 3, 7, 10, 14, 11, 15, 12, 16, 13, 17}},
		{Columns{1, 2, true}, 2, 0, 4, []float32{1, 5, 3, 7, 11, 15, 13, 17}},
		{Columns{0, 2, true}, 2, 1, 3, []float32{2, 6, 10, 14}},
		{Columns{0, 2, false}, 2, 0, 2, []float32{0, 2, 4, 6}},
		{Columns{1, 2, false}, 2, 3, 4, []float32{15, 17}},
	} {
		dst := make([]byte, 4*len(c.want))
		if err := m.Gather(dst, c.cols, c.from, c.to, c.columns); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(c.want))
		if Decode(F32, got, dst); !slices.Equal(got, c.want) {
			t.Errorf("%+v, rows %d to %d: %v, and %v is right", c.columns, c.from, c.to, got, c.want)
		}
	}
	m.Format = Q8_0
	if err := m.Gather(nil, 2, 0, 0, Columns{0, 1, true}); err == nil {
		t.Error("a tensor in blocks is taken apart by columns")
	}
}
