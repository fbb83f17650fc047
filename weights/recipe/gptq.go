package recipe

import (
	"fmt"
)

// GPTQ is a matrix as GPTQ's and AWQ's files on the Hugging Face hub have it, of cols numbers in each of rows: Base.scales f16 [groups, rows]
// and codes of b bits packed in words, Base.qzeros i32 [groups, rows·b/32] along rows, and Base.qweight
//
//	GPTQ  i32 [cols·b/32, rows]   along columns, number 0 in the lowest bits; with 3 bits numbers straddle words
//	AWQ   i32 [cols, rows/8]      along rows, 4 bits: nibble i of a word is row {0, 2, 4, 6, 1, 3, 5, 7}[i] of the eight; qzeros likewise
//
// GPTQ's Base.g_idx i32 [cols] is the group of each column.
type GPTQ struct {
	Base        string
	ZeroPlusOne bool // GPTQ's zero points are stored less 1
}

func (r GPTQ) String() string { return fmt.Sprintf("gptq(%s)", r.Base) }

func (r GPTQ) open(files Tensors) (source, error) {
	codes, err := rawMatrix(files, r.Base+".qweight", "I32")
	if err != nil {
		return nil, err
	}
	scales, err := rawMatrix(files, r.Base+".scales", floatTypes...)
	if err != nil {
		return nil, err
	}
	zeros, err := rawMatrix(files, r.Base+".qzeros", "I32")
	if err != nil {
		return nil, err
	}
	groups, rows := scales.Shape[0], scales.Shape[1]
	m := &intMatrix{factor: 1, scales: grid{r.Base + ".scales", scales.DType, scales.Data, 1, rows}}
	m.Rows, m.bits = rows, 32*zeros.Shape[1]/rows
	if zeros.Shape[0] != groups || m.bits < 1 || m.bits > 8 || zeros.Shape[1]*32 != rows*m.bits {
		return nil, fmt.Errorf("tensor %s.qzeros has the shape %d, which does not fit the shape %d of %s.scales", r.Base, zeros.Shape, scales.Shape, r.Base)
	}
	switch packed := codes.Shape; {
	case packed[1] == rows && packed[0]*32%m.bits == 0:
		m.Cols = packed[0] * 32 / m.bits
		m.gptq(codes.Data, zeros, r.ZeroPlusOne)
	case packed[1]*8 == rows && m.bits == 4:
		m.Cols = packed[0]
		m.awq(codes.Data, zeros)
	default:
		return nil, fmt.Errorf("tensor %s.qweight has the shape %d, which fits neither GPTQ's nor AWQ's packing of %d rows in %d bits", r.Base, packed, rows, m.bits)
	}
	if m.Cols%groups != 0 {
		return nil, fmt.Errorf("tensor %s.qweight has rows of %d numbers, which %d groups of %s.scales do not divide", r.Base, m.Cols, groups, r.Base)
	}
	m.group = m.Cols / groups
	if err := m.readGroups(files, r.Base+".g_idx", groups); err != nil {
		return nil, err
	}
	if err := m.checkGroups(r.Base + ".qweight"); err != nil {
		return nil, err
	}
	m.choose(false)
	return m, m.scales.check()
}

// gptq sets codes and zero points of GPTQ's packing.
func (m *intMatrix) gptq(data []byte, zeros Raw, plusOne bool) {
	rows, cols, bits := m.Rows, m.Cols, m.bits
	m.codes = func(dst []byte, from, to int) {
		var words [8]uint32
		for k := 0; k < cols; k += 32 {
			first := k / 32 * bits * rows
			for r := from; r < to; r++ {
				for i := range bits {
					words[i] = order.Uint32(data[4*(first+i*rows+r):])
				}
				unpackWords((*[32]byte)(dst[(r-from)*cols+k:]), &words, bits)
			}
		}
	}
	add := 0
	if plusOne {
		add = 1
	}
	stream, words := bitStream{zeros.Data, bits}, zeros.Shape[1]
	m.zero = func(row, group int) int { return stream.at(32*group*words+row*bits) + add }
}

// awqNibble is the nibble of a word that has row i of eight.
var awqNibble = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// awq sets codes and zero points of AWQ's packing, version gemm.
func (m *intMatrix) awq(data []byte, zeros Raw) {
	cols, words := m.Cols, m.Rows/8
	nibble := func(data []byte, line, row int) byte {
		return byte(order.Uint32(data[4*(line*words+row/8):])>>(4*awqNibble[row%8])) & 15
	}
	m.codes = func(dst []byte, from, to int) {
		for k := range cols {
			for r := from; r < to; r++ {
				dst[(r-from)*cols+k] = nibble(data, k, r)
			}
		}
	}
	m.zero = func(row, group int) int { return int(nibble(zeros.Data, group, row)) }
}

// readGroups reads the group of each column, where the file has them and they are not simply one behind the other.
func (m *intMatrix) readGroups(files Tensors, name string, groups int) error {
	f := files.(packedFile)
	if _, ok := f.Bytes(name); !ok {
		return nil
	}
	t, err := raw(files, name, "I32", "I64")
	if err != nil {
		return err
	}
	size := 4
	if t.DType == "I64" {
		size = 8
	}
	if len(t.Data) != size*m.Cols {
		return fmt.Errorf("tensor %s has the shape %d, and one number for each of %d columns is wanted", name, t.Shape, m.Cols)
	}
	index, plain := make([]int32, m.Cols), true
	for k := range index {
		g := int32(order.Uint32(t.Data[size*k:]))
		if g < 0 || int(g) >= groups {
			return fmt.Errorf("number %d of tensor %s is %d, and there are groups 0 to %d", k, name, g, groups-1)
		}
		index[k], plain = g, plain && int(g) == k/m.group
	}
	if !plain {
		m.groups = index
	}
	return nil
}
