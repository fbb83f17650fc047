package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// files is a model file in memory.
type files map[string]quant.Tensor

func (f files) Tensor(name string) (quant.Tensor, bool) { t, ok := f[name]; return t, ok }
func (files) Release([]byte)                            {}

// counting is a tensor of rows × cols numbers 0, 1, 2 … in a format.
func counting(t *testing.T, f quant.Format, rows, cols int) quant.Tensor {
	t.Helper()
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(i)
	}
	data := make([]byte, int64(rows)*f.RowBytes(cols))
	if err := quant.Encode(f, data, x); err != nil {
		t.Fatal(err)
	}
	tensor, err := quant.NewTensor(f, rows, cols, data)
	if err != nil {
		t.Fatal(err)
	}
	return tensor
}

func decode(q quant.Tensor) []float32 {
	x := make([]float32, q.Rows*q.Cols)
	quant.Decode(q.Format, x, q.Data)
	return x
}

func axis(n int) graph.Axis { return graph.Axis{Name: "a", Count: n, Size: 1} }

// TestFind: parts of matrices and vectors, transposed and plus one.
func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		tensor  quant.Tensor
		out, in int
		from    int
		change  graph.Change
		want    []float32
	}{
		"whole":          {counting(t, quant.F16, 2, 3), 2, 3, 0, graph.AsIs, []float32{0, 1, 2, 3, 4, 5}},
		"rows":           {counting(t, quant.BF16, 4, 2), 2, 2, 1, graph.AsIs, []float32{2, 3, 4, 5}},
		"of a vector":    {counting(t, quant.F32, 1, 6), 1, 2, 3, graph.AsIs, []float32{3, 4}},
		"transposed":     {counting(t, quant.F32, 2, 3), 3, 2, 0, graph.Transpose, []float32{0, 3, 1, 4, 2, 5}},
		"transposed row": {counting(t, quant.F16, 2, 3), 1, 2, 2, graph.Transpose, []float32{2, 5}},
		"plus one":       {counting(t, quant.BF16, 1, 3), 1, 3, 0, graph.PlusOne, []float32{1, 2, 3}},
	} {
		w := &graph.Weight{Name: "w", Out: axis(c.out), In: axis(c.in), Source: graph.Source{Tensor: "t", From: c.from, Change: c.change}}
		got, err := find(files{"t": c.tensor}, w, map[change]quant.Tensor{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if x := decode(got); !slices.Equal(x, c.want) {
			t.Errorf("%s: %v and should be %v", name, x, c.want)
		}
	}
}

func TestFindErrors(t *testing.T) {
	all := files{"t": counting(t, quant.Q8_0, 2, 32)}
	for want, source := range map[string]graph.Source{
		"no tensor missing for weight w":        {Tensor: "missing"},
		"a tensor in Q8_0 cannot be transposed": {Tensor: "t", Change: graph.Transpose},
	} {
		w := &graph.Weight{Name: "w", Out: axis(2), In: axis(32), Source: source}
		if _, err := find(all, w, map[change]quant.Tensor{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; it should say %q", err, want)
		}
	}
}
