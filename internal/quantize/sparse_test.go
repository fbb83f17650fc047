package quantize

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// TestSparseOutputs: matrices with two numbers in each four, or fewer, are read back as they were; more are refused.
func TestSparseOutputs(t *testing.T) {
	row := []float32{1, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4, 5, 0, 0}
	for _, f := range []quant.Format{quant.F32, quant.BF16, quant.F16} {
		m, err := quant.FromFloats(row, 2, 8).As(f)
		if err != nil {
			t.Fatal(err)
		}
		list, err := sparseOutputs("m", m)
		if err != nil {
			t.Fatal(err)
		}
		files := tensors{}
		for _, o := range list {
			var b bytes.Buffer
			if err := o.Data(&b); err != nil {
				t.Fatal(err)
			}
			files[o.Name] = recipe.Raw{DType: string(o.DType), Shape: o.Shape, Data: b.Bytes()}
		}
		r, ok := recipe.Packed(files, "m.weight", recipe.Layout{})
		if !ok {
			t.Fatal("no packed matrix is found")
		}
		x, err := recipe.Open(r, files)
		if err != nil {
			t.Fatal(err)
		}
		got := quant.Tensor{Format: x.Format, Rows: x.Rows, Cols: x.Cols, Data: x.Read(make([]byte, int64(x.Rows)*x.Format.RowBytes(x.Cols)), 0, x.Rows)}.Floats()
		for i, v := range row {
			if got[i] != v {
				t.Errorf("%s: number %d is %g, want %g", f, i, got[i], v)
			}
		}
	}
	row[1] = 1
	if _, err := sparseOutputs("m", quant.FromFloats(row, 2, 8)); err == nil || !strings.Contains(err.Error(), "row 0 of tensor m.weight has more than two numbers in four from 0") {
		t.Errorf("three of four: %v", err)
	}
}
