package recipe

import (
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// files is a model file in memory.
type files map[string]quant.Tensor

func (f files) Tensor(name string) (quant.Tensor, bool) { t, ok := f[name]; return t, ok && t.Rows > 0 }

// Bytes has the tensors without rows, bytes with a shape of Cols.
func (f files) Bytes(name string) (Raw, bool) {
	t, ok := f[name]
	return Raw{"U8", []int{len(t.Data) / max(t.Cols, 1), t.Cols}, t.Data}, ok && t.Rows == 0
}

// counting is a tensor of rows × cols numbers first, first + 1 … in a format.
func counting(t *testing.T, f quant.Format, rows, cols, first int) quant.Tensor {
	t.Helper()
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(first + i)
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

func decode(parts []quant.Tensor) (all []float32) {
	for _, q := range parts {
		x := make([]float32, q.Rows*q.Cols)
		quant.Decode(q.Format, x, q.Data)
		all = append(all, x...)
	}
	return all
}

// TestRecipes: what each step makes of numbers that count, its text, and whether it is a window into the file; as a whole, row by row, and in
// as many parts as it has rows.
func TestRecipes(t *testing.T) {
	all := files{
		"m": counting(t, quant.BF16, 4, 6, 0), "n": counting(t, quant.BF16, 2, 6, 100), "f": counting(t, quant.F32, 2, 3, 0), "g": counting(t, quant.F32, 3, 2, 0),
		"v": counting(t, quant.F32, 1, 6, 0), "q": counting(t, quant.Q8_0, 2, 32, 0), "wide": counting(t, quant.F16, 3, 130, 0),
	}
	codes := make([]byte, 32) // of two rows of 32 numbers
	codes[16], codes[17], codes[24] = 0x1|0xd<<4, 0x6, 0x7<<4
	all["e_blocks"], all["e_scales"] = quant.Tensor{Cols: 16, Data: codes}, quant.Tensor{Cols: 1, Data: []byte{127, 128}}
	transposedWide := make([]float32, 0, 390)
	for c := range 130 {
		transposedWide = append(transposedWide, float32(c), float32(130+c), float32(260+c))
	}
	for _, c := range []recipeCase{
		{Tensor("f"), "f", 3, true, []float32{0, 1, 2, 3, 4, 5}},
		{Rows{Tensor("m"), 1, 3}, "m[1:3]", 6, true, []float32{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}},
		{Rows{Tensor("v"), 3, 5}, "v[3:5]", 2, true, []float32{3, 4}},
		{Columns{Tensor("f"), 1, 3}, "f[:, 1::3]", 1, false, []float32{1, 4}},
		{Columns{Tensor("v"), 1, 2}, "v[:, 1::2]", 3, false, []float32{1, 3, 5}},
		{EveryRow{Tensor("m"), 1, 2}, "m[1::2]", 6, false, []float32{6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23}},
		{EveryRow{MXFP4{"e_blocks", "e_scales"}, 1, 2}, "mxfp4(e_blocks, e_scales)[1::2]", 32, false, append([]float32{1, -6, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12}, make([]float32, 14)...)},
		{Transpose{Tensor("f"), 1}, "transpose(f)", 2, false, []float32{0, 3, 1, 4, 2, 5}},
		{Transpose{Tensor("wide"), 1}, "transpose(wide)", 3, false, transposedWide},
		{Rows{Transpose{Tensor("f"), 1}, 1, 3}, "transpose(f)[1:3]", 2, false, []float32{1, 4, 2, 5}},
		{Transpose{Tensor("m"), 2}, "transpose(m, each of 2)", 2, false, []float32{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 12, 18, 13, 19, 14, 20, 15, 21, 16, 22, 17, 23}},
		{Transpose{Columns{Tensor("m"), 1, 2}, 2}, "transpose(m[:, 1::2], each of 2)", 2, false, []float32{1, 7, 3, 9, 5, 11, 13, 19, 15, 21, 17, 23}},
		{PlusOne{Tensor("f")}, "f + 1", 3, false, []float32{1, 2, 3, 4, 5, 6}},
		{Multiplied{Tensor("f"), []Factor{{Number: 0.5}}}, "f × 0.5", 3, false, []float32{0, 0.5, 1, 1.5, 2, 2.5}},
		{Multiplied{Tensor("f"), []Factor{{1, 2}, {1, 3}}}, "f × 2 (1 rows), 3 (1 rows)", 3, false, []float32{0, 2, 4, 9, 12, 15}},
		{Stack{Rows{Tensor("m"), 0, 1}, Rows{Tensor("n"), 0, 1}}, "stack(m[0:1], n[0:1])", 6, false, []float32{0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105}},
		{Stack{Tensor("f"), Transpose{Tensor("g"), 1}, Tensor("f"), PlusOne{Rows{Tensor("f"), 0, 2}}}, "stack(f, …, f[0:2] + 1, 4 of them)", 3, false, []float32{0, 1, 2, 3, 4, 5, 0, 2, 4, 1, 3, 5, 0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6}},
		{RowsOfEach{Tensor("m"), 2, 1, 2}, "m[each of 2, 1:2]", 6, false, []float32{6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23}},
		{RowsOfEach{Stack{Tensor("n"), Tensor("n")}, 2, 1, 2}, "stack(n, n)[each of 2, 1:2]", 6, false, []float32{106, 107, 108, 109, 110, 111, 106, 107, 108, 109, 110, 111}},
		{Transpose{RowsOfEach{Tensor("m"), 2, 0, 1}, 2}, "transpose(m[each of 2, 0:1], each of 2)", 1, false, []float32{0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17}},
		{Transpose{RowsOfEach{Tensor("g"), 1, 0, 2}, 1}, "transpose(g[each of 1, 0:2])", 2, false, []float32{0, 2, 1, 3}},
		{Permute{Tensor("f"), []int{1, 0}}, "permute(f, 2 rows)", 3, false, []float32{3, 4, 5, 0, 1, 2}},
		{Flat{Tensor("f")}, "flat(f)", 6, true, []float32{0, 1, 2, 3, 4, 5}},
		{PermuteColumns{Tensor("f"), []int{2, 0, 1}, 1}, "permute(f, 3 × 1 columns)", 3, false, []float32{2, 0, 1, 5, 3, 4}},
		{Permute{Tensor("v"), []int{5, 0, 4, 1, 3, 2}}, "permute(v, 6 rows)", 6, false, []float32{5, 0, 4, 1, 3, 2}},
		{Rows{Permute{Tensor("v"), []int{5, 0, 4, 1, 3, 2}}, 2, 4}, "permute(v, 6 rows)[2:4]", 2, false, []float32{4, 1}},
	} {
		c.check(t, all)
	}
	// Parts of a Stack lie in the file, each where its tensor does.
	m, err := Open(Stack{Tensor("m"), Tensor("m")}, all)
	if err != nil {
		t.Fatal(err)
	}
	if parts, _ := m.Parts(2); &parts[1].Data[0] != &all["m"].Data[0] {
		t.Error("a part of a stack has been copied")
	}
}

// recipeCase is a recipe, its text, and what it makes: rows of cols numbers, and whether they are a window of the file.
type recipeCase struct {
	r      Recipe
	text   string
	cols   int
	window bool
	want   []float32
}

func (c recipeCase) check(t *testing.T, all files) {
	t.Helper()
	if c.r.String() != c.text {
		t.Errorf("text %q, want %q", c.r, c.text)
	}
	m, err := Open(c.r, all)
	if err != nil {
		t.Errorf("%s: %v", c.r, err)
		return
	}
	if m.Cols != c.cols || m.Rows*m.Cols != len(c.want) {
		t.Errorf("%s is %v, want %d numbers in rows of %d", c.r, m.Shape, len(c.want), c.cols)
		return
	}
	if w := m.from.window(0, m.Rows) != nil; w != c.window {
		t.Errorf("%s is a window: %v, want %v", c.r, w, c.window)
	}
	for _, n := range []int{1, m.Rows} {
		parts, err := m.Parts(n)
		if err != nil {
			t.Fatal(err)
		}
		if x := decode(parts); !slices.Equal(x, c.want) {
			t.Errorf("%s in %d parts is %v, want %v", c.r, n, x, c.want)
		}
	}
	buf, x := make([]byte, m.Format.RowBytes(m.Cols)), make([]float32, m.Cols)
	for r := range m.Rows {
		quant.Decode(m.Format, x, m.Read(buf, r, r+1))
		if want := c.want[r*m.Cols : (r+1)*m.Cols]; !slices.Equal(x, want) {
			t.Errorf("row %d of %s is %v, want %v", r, c.r, x, want)
		}
	}
}

// TestErrors: a recipe that does not fit the file is refused with the tensor and the numbers.
func TestErrors(t *testing.T) {
	all := files{"m": counting(t, quant.BF16, 4, 6, 0), "q": counting(t, quant.Q8_0, 2, 32, 0), "v": counting(t, quant.Q8_0, 1, 64, 0), "c": {Cols: 15, Data: make([]byte, 15)}, "s": {Cols: 1, Data: make([]byte, 1)}}
	for want, r := range map[string]Recipe{
		"the file has no tensor missing":                                                         PlusOne{Tensor("missing")},
		"tensor q is in Q8_0, which cannot be transposed; F32, F16 and BF16 can":                 Transpose{Tensor("q"), 1},
		"tensor q is in Q8_0, which cannot be taken apart by columns":                            Columns{Tensor("q"), 0, 2},
		"tensor m has rows of 6 numbers, which are not to be taken by 4 from number 1 on":        Columns{Tensor("m"), 1, 4},
		"m is 4 × 6 in BF16, and rows 1 to 3 of each of 2 matrices are wanted":                   RowsOfEach{Tensor("m"), 2, 1, 3},
		"tensor m has 4 rows, which are not 3 matrices to be transposed":                         Transpose{Tensor("m"), 3},
		"m has 4 rows, which are not to be taken by 3 from row 0 on":                             EveryRow{Tensor("m"), 0, 3},
		"the file has no tensor x_scales":                                                        MXFP4{"x_blocks", "x_scales"},
		"tensor c has 15 bytes and s, of shape [1 1], has 1; 16 for each of a matrix are wanted": MXFP4{"c", "s"},
		"tensor m has 4 rows, which are not 0 matrices to be transposed":                         Transpose{Tensor("m"), 0},
		"a stack of no matrices is wanted":                                                       Stack{},
		"m has 4 rows, and rows 3 to 4 are wanted":                                               Rows{Tensor("m"), 3, 5},
		"v has 64 numbers in blocks of 32, and numbers 16 to 31 are wanted":                      Rows{Tensor("v"), 16, 32},
		"q is 2 × 32 in Q8_0, and m, which it is stacked with, is 4 × 6 in BF16":                 Stack{Tensor("m"), Tensor("q")},
		"m is 4 × 6 in BF16, and there are numbers to multiply 3 rows by":                        Multiplied{Tensor("m"), []Factor{{3, 2}}},
		"m + 1 cannot be transposed; a tensor and its columns can":                               Transpose{PlusOne{Tensor("m")}, 1},
		"m is 4 × 6 in BF16, and row 4 of it is wanted":                                          Permute{Tensor("m"), []int{0, 4}},
		"v is 1 × 64 in Q8_0, and its columns are to be ordered in 4 groups of 16":               PermuteColumns{Tensor("v"), []int{0, 1, 2, 3}, 16},
		"m has 6 groups of columns, and group 6 is wanted":                                       PermuteColumns{Tensor("m"), []int{0, 1, 2, 3, 4, 6}, 1},
		"v is 1 × 64 in Q8_0, whose numbers cannot be permuted; those in F32, F16 and BF16 can":  Permute{Tensor("v"), make([]int, 64)},
	} {
		if _, err := Open(r, all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", r, err, want)
		}
	}
}
