package recipe

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// rawFiles is a model file in memory, of tensors of any dtype.
type rawFiles map[string]Raw

func (rawFiles) Tensor(string) (quant.Tensor, bool) { return quant.Tensor{}, false }

func (f rawFiles) Bytes(name string) (Raw, bool) { t, ok := f[name]; return t, ok }

// packWords puts numbers of some bits, one behind the other, in words, every `stride` of which belong to one stream.
func packWords(data []byte, first, stride, bits int, codes []int) {
	for i, c := range codes {
		for b := range bits {
			if c>>b&1 != 0 {
				bit := i*bits + b
				at := 4 * (first + bit/32*stride)
				binary.LittleEndian.PutUint32(data[at:], binary.LittleEndian.Uint32(data[at:])|1<<(bit%32))
			}
		}
	}
}

func halves(x []float32) []byte {
	data := make([]byte, 2*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint16(data[2*i:], quant.F32ToF16(v))
	}
	return data
}

func words(x []int) []byte {
	data := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(v))
	}
	return data
}

// intCase is a random matrix of codes, with scales that f16 holds.
type intCase struct {
	rows, cols, bits, group int
	codes, zeros            []int // [rows][cols], [rows][groups]
	scales                  []float32
	groupOf                 []int // of each column
}

func newIntCase(bits, group int, symmetric, shuffled bool) *intCase {
	r := rand.New(rand.NewPCG(uint64(bits), uint64(group)))
	c := &intCase{rows: 64, cols: 128, bits: bits, group: group}
	for range c.rows * c.cols {
		c.codes = append(c.codes, r.IntN(1<<bits))
	}
	for range c.rows * c.cols / group {
		z := 1 << (bits - 1)
		if !symmetric {
			z = 1 + r.IntN(1<<bits-1)
		}
		c.zeros, c.scales = append(c.zeros, z), append(c.scales, float32(1+r.IntN(100))/256)
	}
	for k := range c.cols {
		c.groupOf = append(c.groupOf, k/group)
	}
	if shuffled {
		r.Shuffle(c.cols, func(i, j int) { c.groupOf[i], c.groupOf[j] = c.groupOf[j], c.groupOf[i] })
	}
	return c
}

// values is what the matrix stands for.
func (c *intCase) values() []float32 {
	var all []float32
	for i, q := range c.codes {
		g := i/c.cols*(c.cols/c.group) + c.groupOf[i%c.cols]
		all = append(all, float32(q-c.zeros[g])*c.scales[g])
	}
	return all
}

// gptq is the matrix as GPTQ stores it.
func (c *intCase) gptq(plusOne bool) rawFiles {
	groups := c.cols / c.group
	code, zero := make([]byte, 4*c.cols*c.bits/32*c.rows), make([]byte, 4*groups*c.rows*c.bits/32)
	scales, less := make([]float32, groups*c.rows), 0
	if plusOne {
		less = 1
	}
	for r := range c.rows {
		packWords(code, r, c.rows, c.bits, c.codes[r*c.cols:(r+1)*c.cols])
		for g := range groups {
			scales[g*c.rows+r] = c.scales[r*groups+g]
		}
	}
	for g := range groups {
		var line []int
		for r := range c.rows {
			line = append(line, c.zeros[r*groups+g]-less)
		}
		packWords(zero, g*c.rows*c.bits/32, 1, c.bits, line)
	}
	return rawFiles{
		"w.qweight": {"I32", []int{c.cols * c.bits / 32, c.rows}, code}, "w.qzeros": {"I32", []int{groups, c.rows * c.bits / 32}, zero},
		"w.scales": {"F16", []int{groups, c.rows}, halves(scales)}, "w.g_idx": {"I32", []int{c.cols}, words(c.groupOf)},
	}
}

// awq is the matrix as AWQ stores it.
func (c *intCase) awq() rawFiles {
	groups := c.cols / c.group
	f := c.gptq(false)
	line := func(codes func(row int) int) (all []int) {
		for w := range c.rows / 8 {
			v := 0
			for i, row := range [8]int{0, 2, 4, 6, 1, 3, 5, 7} {
				v |= codes(8*w+row) << (4 * i)
			}
			all = append(all, v)
		}
		return all
	}
	var code, zero []int
	for k := range c.cols {
		code = append(code, line(func(r int) int { return c.codes[r*c.cols+k] })...)
	}
	for g := range groups {
		zero = append(zero, line(func(r int) int { return c.zeros[r*groups+g] })...)
	}
	return rawFiles{"w.qweight": {"I32", []int{c.cols, c.rows / 8}, words(code)}, "w.qzeros": {"I32", []int{groups, c.rows / 8}, words(zero)}, "w.scales": f["w.scales"]}
}

// packed is the matrix as compressed-tensors' pack-quantized stores it.
func (c *intCase) packed(symmetric bool) rawFiles {
	groups, each, lines := c.cols/c.group, (c.cols*c.bits+31)/32, (c.rows*c.bits+31)/32
	code, zero := make([]byte, 4*c.rows*each), make([]byte, 4*lines*groups)
	for r := range c.rows {
		packWords(code, r*each, 1, c.bits, c.codes[r*c.cols:(r+1)*c.cols])
	}
	for g := range groups {
		var column []int
		for r := range c.rows {
			column = append(column, c.zeros[r*groups+g])
		}
		packWords(zero, g, groups, c.bits, column)
	}
	f := rawFiles{
		"w.weight_packed": {"I32", []int{c.rows, each}, code}, "w.weight_scale": {"F16", []int{c.rows, groups}, halves(c.scales)},
		"w.weight_shape": {"I32", []int{2}, words([]int{c.rows, c.cols})}, "w.weight_g_idx": {"I32", []int{c.cols}, words(c.groupOf)},
	}
	if !symmetric {
		f["w.weight_zero_point"] = Raw{"I32", []int{lines, groups}, zero}
	}
	return f
}

// TestInts: codes of every width in every packing, with and without zero points, with columns of groups apart, come out exactly, in the format
// that holds them.
func TestInts(t *testing.T) {
	for _, c := range []struct {
		bits, group         int
		symmetric, shuffled bool
		format              quant.Format
	}{
		{2, 32, true, false, quant.Q4_0}, {3, 64, true, false, quant.Q4_0}, {4, 128, true, false, quant.Q4_0}, {8, 32, true, false, quant.Q8_0},
		{2, 64, false, false, quant.UINT4}, {3, 32, false, false, quant.UINT4}, {4, 64, false, false, quant.UINT4}, {8, 128, false, false, quant.UINT8},
		{4, 32, true, true, quant.F32}, {4, 16, false, true, quant.F32},
	} {
		m := newIntCase(c.bits, c.group, c.symmetric, c.shuffled)
		files := map[string]rawFiles{"gptq": m.gptq(true), "gptq_v2": m.gptq(false), "compressed-tensors": m.packed(c.symmetric)}
		if c.bits == 4 && !c.shuffled {
			files["awq"] = m.awq()
		}
		for name, f := range files {
			r, ok := Packed(f, "w.weight", Layout{ZeroPlusOne: name == "gptq"})
			if !ok {
				t.Fatalf("%s: there is no recipe", name)
			}
			x, err := Open(r, f)
			if err != nil {
				t.Fatalf("%s, %d bits: %v", name, c.bits, err)
			}
			parts, err := x.Parts(1)
			if err != nil || x.Format != c.format || x.Rows != m.rows || x.Cols != m.cols {
				t.Fatalf("%s, %d bits: %v, %v", name, c.bits, x.Shape, err)
			}
			if !slices.Equal(decode(parts), m.values()) {
				t.Errorf("%s, %d bits in groups of %d: other numbers", name, c.bits, c.group)
			}
		}
	}
}

// TestIntsRefused: errors name the tensor at fault.
func TestIntsRefused(t *testing.T) {
	for want, spoil := range map[string]func(f rawFiles){
		"no tensor w.scales":                  func(f rawFiles) { delete(f, "w.scales") },
		"scale 3 of tensor w.scales is NaN":   func(f rawFiles) { f["w.scales"].Data[6], f["w.scales"].Data[7] = 1, 0x7e },
		"scale 0 of tensor w.scales is 0":     func(f rawFiles) { copy(f["w.scales"].Data, []byte{0, 0}) },
		"number 5 of tensor w.g_idx is 255":   func(f rawFiles) { f["w.g_idx"].Data[20] = 255 },
		"w.qweight has the shape [15 40]":     func(f rawFiles) { f["w.qweight"] = Raw{"I32", []int{15, 40}, f["w.qweight"].Data} },
		"w.qzeros has the shape [3 5]":        func(f rawFiles) { f["w.qzeros"] = Raw{"I32", []int{3, 5}, f["w.qzeros"].Data} },
		"tensor w.scales is in U8":            func(f rawFiles) { f["w.scales"] = Raw{"U8", []int{4, 40}, nil} },
		"w.g_idx has the shape [3]":           func(f rawFiles) { f["w.g_idx"] = Raw{"I32", []int{3}, make([]byte, 12)} },
		"w.qweight has the shape [], and a m": func(f rawFiles) { f["w.qweight"] = Raw{"I32", nil, make([]byte, 4)} },
	} {
		f := newIntCase(4, 32, true, false).gptq(true)
		spoil(f)
		_, err := Open(GPTQ{Base: "w", ZeroPlusOne: true}, f)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
