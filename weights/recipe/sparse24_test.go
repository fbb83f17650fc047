package recipe

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// sparseFiles are the tensors of a random 2:4 matrix in sparse-24-bitmask, and its numbers.
func sparseFiles(rows, cols int) (rawFiles, []float32) {
	r := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	dense, values, masks := make([]float32, rows*cols), []float32{}, make([]byte, rows*cols/8)
	for g := 0; g < len(dense); g += 4 {
		first, second := r.IntN(4), r.IntN(3)
		if second >= first {
			second++
		}
		for _, j := range []int{min(first, second), max(first, second)} {
			dense[g+j] = float32(r.IntN(200) - 100)
			values = append(values, dense[g+j])
			masks[(g+j)/8] |= 1 << ((g + j) % 8)
		}
	}
	shape := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(rows)), uint64(cols))
	return rawFiles{
		"w.compressed": {"F16", []int{rows, cols / 2}, halves(values)},
		"w.bitmask":    {"U8", []int{rows, cols / 8}, masks},
		"w.shape":      {"I64", []int{2}, shape},
	}, dense
}

// TestSparse24: a matrix in sparse-24-bitmask is stored sparse where its rows divide into blocks, and with its zeros where they do not.
func TestSparse24(t *testing.T) {
	for cols, format := range map[int]quant.Format{192: quant.F16_2_4, 80: quant.F16} {
		files, want := sparseFiles(12, cols)
		r, ok := Packed(files, "w.weight", Layout{})
		if !ok || r.String() != "sparse24(w)" {
			t.Fatalf("the recipe is %v", r)
		}
		m, err := Open(r, files)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := m.Parts(1)
		if err != nil {
			t.Fatal(err)
		}
		if got := parts[0].Floats(); m.Format != format || !slices.Equal(got, want) {
			t.Errorf("rows of %d: %s, %v …, want %s, %v …", cols, m.Format, got[:8], format, want[:8])
		}
	}
}

// TestSparse24Refuses: damaged tensors are errors that name them.
func TestSparse24Refuses(t *testing.T) {
	for _, c := range []struct {
		want   string
		damage func(f rawFiles)
	}{
		{"byte 3 of tensor w.bitmask", func(f rawFiles) { f["w.bitmask"].Data[3] |= 15 }},
		{"tensor w.bitmask has the shape", func(f rawFiles) { f["w.bitmask"] = Raw{"U8", []int{12, 23}, make([]byte, 12*23)} }},
		{"no tensor w.shape", func(f rawFiles) { delete(f, "w.shape") }},
		{"tensor w.shape says", func(f rawFiles) { f["w.shape"].Data[0]++ }},
		{"w.compressed is in F8_E4M3", func(f rawFiles) { f["w.compressed"] = Raw{"F8_E4M3", []int{12, 96}, make([]byte, 12*96)} }},
	} {
		files, _ := sparseFiles(12, 192)
		c.damage(files)
		if _, err := Open(Sparse24{Base: "w"}, files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// TestSparseBlocksRefused: a tensor of GGUF's whose masks do not store two of each four numbers is an error that names it and the place.
func TestSparseBlocksRefused(t *testing.T) {
	x, stored := make([]float32, 3*128), files{}
	for i := range x {
		x[i] = float32(i%9) - 4
	}
	data := make([]byte, quant.F16_2_4.RowBytes(len(x)))
	if err := quant.Encode(quant.F16_2_4, data, x); err != nil {
		t.Fatal(err)
	}
	stored["blk.0.ffn_up.weight"] = quant.Tensor{Rows: 3, Cols: 128, Format: quant.F16_2_4, Data: data}
	if _, err := Open(Tensor("blk.0.ffn_up.weight"), stored); err != nil {
		t.Fatal(err)
	}
	data[72*3+5] |= 0xf0 // of the second row's second block
	const want = "tensor blk.0.ffn_up.weight, in F16_2_4, does not store 2 of the 4 numbers from number 108 of row 1 on"
	if _, err := Open(Tensor("blk.0.ffn_up.weight"), stored); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v; it should say that %s", err, want)
	}
}
