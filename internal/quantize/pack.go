package quantize

import (
	"encoding/binary"

	"github.com/ridge-llm/ridge/internal/quantize/dense"
	"github.com/ridge-llm/ridge/quant"
)

// packedTensor is a tensor of a checkpoint, in bytes.
type packedTensor struct {
	suffix string // behind the name of the module: ".qweight"
	dtype  string
	shape  []int
	data   []byte
}

// ints is numbers as I32.
func ints(x []uint32) []byte {
	data := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(data[4*i:], v)
	}
	return data
}

// putBits adds a code of some bits to a stream that begins at words[0] and goes on every stride words.
func putBits(words []uint32, stride, index, bits int, code uint32) {
	at := index * bits
	words[at/32*stride] |= code << (at % 32)
	if rest := at%32 + bits - 32; rest > 0 {
		words[(at/32+1)*stride] |= code >> (bits - rest)
	}
}

// words is how many words n codes take.
func words(n, bits int) int { return (n*bits + 31) / 32 }

// gptq is the matrix as GPTQ's checkpoints have it: codes along columns, zero points along rows. Those of symmetric grids are stored less 1, as
// version 1 has them; others are as they are, which is version 2: 0 less 1 would not fit.
func (m *Matrix) gptq() []packedTensor {
	n, k, bits, groups := m.Rows, m.Cols, m.Bits, m.groups()
	codes := make([]uint32, words(k, bits)*n)
	dense.Each(n, 8, func(from, to int) {
		for r := from; r < to; r++ {
			for c, q := range m.codes[r*k : (r+1)*k] {
				putBits(codes[r:], n, c, bits, uint32(q))
			}
		}
	})
	perRow := words(n, bits)
	zeros, scales := make([]uint32, groups*perRow), make([]byte, 2*groups*n)
	less := uint32(0)
	if m.Symmetric {
		less = 1
	}
	for g := range groups {
		for r := range n {
			s := m.steps[r*groups+g]
			putBits(zeros[g*perRow:], 1, r, bits, uint32(s.zero)-less)
			binary.LittleEndian.PutUint16(scales[2*(g*n+r):], quant.F32ToF16(s.scale))
		}
	}
	order := make([]uint32, k)
	for c := range order {
		order[c] = uint32(m.groupOf(c))
	}
	return []packedTensor{
		{".qweight", "I32", []int{words(k, bits), n}, ints(codes)},
		{".qzeros", "I32", []int{groups, perRow}, ints(zeros)},
		{".scales", "F16", []int{groups, n}, scales},
		{".g_idx", "I32", []int{k}, ints(order)},
	}
}

// awqNibbles is the row of eight that a nibble of a word holds, the lowest first.
var awqNibbles = [8]int{0, 2, 4, 6, 1, 3, 5, 7}

// awq is the matrix as AWQ's checkpoints of version gemm have it: codes and zero points along rows.
func (m *Matrix) awq() []packedTensor {
	n, k, groups := m.Rows, m.Cols, m.groups()
	codes, zeros, scales := make([]uint32, k*n/8), make([]uint32, groups*n/8), make([]byte, 2*groups*n)
	for r8 := range n / 8 {
		for i, of := range awqNibbles {
			r := 8*r8 + of
			for c, q := range m.codes[r*k : (r+1)*k] {
				codes[c*n/8+r8] |= uint32(q) << (4 * i)
			}
			for g := range groups {
				zeros[g*n/8+r8] |= uint32(m.steps[r*groups+g].zero) << (4 * i)
			}
		}
	}
	for g := range groups {
		for r := range n {
			binary.LittleEndian.PutUint16(scales[2*(g*n+r):], quant.F32ToF16(m.steps[r*groups+g].scale))
		}
	}
	return []packedTensor{
		{".qweight", "I32", []int{k, n / 8}, ints(codes)},
		{".qzeros", "I32", []int{groups, n / 8}, ints(zeros)},
		{".scales", "F16", []int{groups, n}, scales},
	}
}

// packedInts is the matrix as compressed-tensors' pack-quantized has it: codes along columns, zero points along rows.
func (m *Matrix) packedInts() []packedTensor {
	n, k, bits, groups := m.Rows, m.Cols, m.Bits, m.groups()
	perRow := words(k, bits)
	codes, scales := make([]uint32, n*perRow), make([]byte, 2*n*groups)
	for r := range n {
		for c, q := range m.codes[r*k : (r+1)*k] {
			putBits(codes[r*perRow:], 1, c, bits, uint32(q))
		}
		for g := range groups {
			binary.LittleEndian.PutUint16(scales[2*(r*groups+g):], quant.F32ToF16(m.steps[r*groups+g].scale))
		}
	}
	shape := make([]byte, 16)
	binary.LittleEndian.PutUint64(shape, uint64(n))
	binary.LittleEndian.PutUint64(shape[8:], uint64(k))
	all := []packedTensor{
		{".weight_packed", "I32", []int{n, perRow}, ints(codes)},
		{".weight_scale", "F16", []int{n, groups}, scales},
		{".weight_shape", "I64", []int{2}, shape},
	}
	if !m.Symmetric {
		zeros := make([]uint32, words(n, bits)*groups)
		for r := range n {
			for g := range groups {
				putBits(zeros[g:], groups, r, bits, uint32(m.steps[r*groups+g].zero))
			}
		}
		all = append(all, packedTensor{".weight_zero_point", "I32", []int{words(n, bits), groups}, ints(zeros)})
	}
	if m.order != nil {
		order := make([]uint32, k)
		for c, g := range m.order {
			order[c] = uint32(g)
		}
		all = append(all, packedTensor{".weight_g_idx", "I32", []int{k}, ints(order)})
	}
	return all
}

// signedBytes is the matrix as compressed-tensors' int-quantized has it: signed bytes with a scale for each row.
func (m *Matrix) signedBytes() []packedTensor {
	codes := make([]byte, len(m.codes))
	for i, q := range m.codes {
		codes[i] = q - byte(m.middle())
	}
	return []packedTensor{
		{".weight", "I8", []int{m.Rows, m.Cols}, codes},
		{".weight_scale", "F32", []int{m.Rows, 1}, m.scales()},
	}
}

// packed is the matrix in a layout.
func (m *Matrix) packed(l Layout) []packedTensor {
	switch {
	case l == LayoutGPTQ:
		return m.gptq()
	case l == LayoutAWQ:
		return m.awq()
	case m.Bits == 8 && m.Symmetric && m.Group == 0:
		return m.signedBytes()
	}
	return m.packedInts()
}

// blockFormats are the formats of GGUF that hold a grid of so many bits, symmetric and not.
var blockFormats = map[int][2]quant.Format{
	2: {quant.Q4_0, quant.Q4_1}, 3: {quant.Q4_0, quant.Q4_1}, 4: {quant.Q4_0, quant.Q4_1}, 5: {quant.Q5_0, quant.Q5_1}, 6: {quant.Q8_0, quant.Q8_0}, 7: {quant.Q8_0, quant.Q8_0}, 8: {quant.Q8_0, quant.Q8_0},
}

// blocks is the matrix in a format of GGUF, code by code. Floors of asymmetric grids, scale·zero, are rounded to f16.
func (m *Matrix) blocks() quant.Tensor {
	of := blockFormats[m.Bits]
	if m.Symmetric {
		return m.in(of[0])
	}
	return m.in(of[1])
}

// running is the matrix as the model runs with it over the text: its codes in blocks, which the CPU multiplies in integers, three times as fast as
// floats; or its numbers, where groups lie apart, or where inputs in 8 bits would be off by as much as the matrix is.
func (m *Matrix) running() quant.Tensor {
	switch {
	case m.order != nil || m.Bits > 4:
		return quant.FromFloats(m.numbers(), m.Rows, m.Cols)
	case m.Symmetric:
		return m.blocks()
	}
	return m.in(quant.UINT4)
}

// in is the matrix in a format of blocks of 32 codes.
func (m *Matrix) in(f quant.Format) quant.Tensor {
	t := quant.Tensor{Format: f, Rows: m.Rows, Cols: m.Cols, Data: make([]byte, int64(m.Rows)*f.RowBytes(m.Cols))}
	size := f.BlockBytes()
	dense.Each(m.Rows, 1, func(from, to int) {
		for r := from; r < to; r++ {
			row := t.Row(r)
			for c := 0; c < m.Cols; c += 32 {
				s := m.steps[r*m.groups()+m.groupOf(c)]
				quant.PutCodes(f, row[c/32*size:][:size], m.codes[r*m.Cols+c:][:32], s.scale, int(s.zero))
			}
		}
	})
	return t
}
