package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
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

// TestMatrices: a weight is a window into the file, a stack is one for each matrix, and what has to be made is made.
func TestMatrices(t *testing.T) {
	file := counting(t, quant.F32, 4, 3)
	for name, c := range map[string]struct {
		weight graph.Weight
		window bool
		want   [][]float32
	}{
		"whole":      {graph.Weight{Out: axis(4), In: axis(3), Recipe: recipe.Tensor("t")}, true, [][]float32{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},
		"stack":      {graph.Weight{Stack: axis(2), Out: axis(2), In: axis(3), Recipe: recipe.Tensor("t")}, true, [][]float32{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}},
		"transposed": {graph.Weight{Stack: axis(3), Out: axis(1), In: axis(4), Recipe: recipe.Transpose{Of: recipe.Tensor("t"), Count: 1}}, false, [][]float32{{0, 3, 6, 9}, {1, 4, 7, 10}, {2, 5, 8, 11}}},
	} {
		got, err := matrices(files{"t": file}, &c.weight)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range c.want {
			if x := decode(got[i]); !slices.Equal(x, want) {
				t.Errorf("%s: matrix %d is %v and should be %v", name, i, x, want)
			}
		}
		if window := &got[0].Data[0] == &file.Data[0]; window != c.window {
			t.Errorf("%s lies in the file: %v, want %v", name, window, c.window)
		}
	}
}

func TestMatricesErrors(t *testing.T) {
	all := files{"t": counting(t, quant.Q8_0, 2, 32)}
	for want, r := range map[string]recipe.Recipe{
		"weight w: the file has no tensor missing":                        recipe.Tensor("missing"),
		"weight w: tensor t is in Q8_0, which cannot be transposed":       recipe.Transpose{Of: recipe.Tensor("t"), Count: 1},
		"weight w: t[0:1] is 1 × 32 in Q8_0, and 2 × 32 is wanted":        recipe.Rows{Of: recipe.Tensor("t"), From: 0, To: 1},
		"weight w is of a model without a file; give the model's weights": nil,
	} {
		w := &graph.Weight{Name: "w", Out: axis(2), In: axis(32), Recipe: r}
		if _, err := matrices(all, w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; it should say %q", err, want)
		}
	}
}
