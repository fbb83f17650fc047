package recipe

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestRowsOf: the rows that a recipe makes are those of the tensor that RowsOf says.
func TestRowsOf(t *testing.T) {
	const rows, cols = 12, 2
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(i)
	}
	from := files{"w": quant.FromFloats(x, rows, cols)}
	for _, r := range []Recipe{
		Tensor("w"),
		Rows{Tensor("w"), 3, 9},
		Permute{Rows{Tensor("w"), 4, 8}, []int{2, 0, 3, 1}},
		Rows{EveryRow{Tensor("w"), 1, 3}, 1, 4},
		EveryRow{Permute{Tensor("w"), []int{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}, 0, 4},
	} {
		of, row := RowsOf(r)
		if of != Tensor("w") {
			t.Fatalf("%s takes rows of %s", r, of)
		}
		m, err := Open(r, from)
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		parts, err := m.Parts(1)
		if err != nil {
			t.Fatal(err)
		}
		made := parts[0].Floats()
		for i := range m.Rows {
			if got, want := made[i*cols:(i+1)*cols], x[row(i)*cols:(row(i)+1)*cols]; !slices.Equal(got, want) {
				t.Errorf("%s: row %d is %v, and row %d of the tensor %v", r, i, got, row(i), want)
			}
		}
	}
	if of, _ := RowsOf(Rows{Transpose{Tensor("w"), 1}, 0, 1}); of.String() != (Transpose{Tensor("w"), 1}).String() {
		t.Errorf("rows of a transposed matrix are of %s", of)
	}
}
