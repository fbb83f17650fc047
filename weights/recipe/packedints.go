package recipe

import (
	"fmt"
	"math"
)

// PackedInts is a matrix as compressed-tensors' pack-quantized has it: Base.weight_packed i32 [rows, words], the codes of a row densely in words,
// each plus half of their range, or, as older versions wrote widths that do not divide 32, as many whole codes to a word as fit; Base.weight_shape
// [2]; Base.weight_scale [rows, groups]; Base.weight_zero_point i32 [words, groups], packed likewise along rows, if it is asymmetric; and
// Base.weight_g_idx [cols], the group of each column, if they are not simply one behind the other.
type PackedInts struct{ Base string }

func (r PackedInts) String() string { return fmt.Sprintf("ints(%s)", r.Base) }

func (r PackedInts) open(files Tensors) (source, error) {
	codes, err := rawMatrix(files, r.Base+".weight_packed", "I32")
	if err != nil {
		return nil, err
	}
	scales, err := rawMatrix(files, r.Base+".weight_scale", floatTypes...)
	if err != nil {
		return nil, err
	}
	size, err := raw(files, r.Base+".weight_shape", "I64", "I32")
	if err != nil {
		return nil, err
	}
	if len(size.Data) != 8 && len(size.Data) != 16 {
		return nil, fmt.Errorf("tensor %s.weight_shape has the shape %d, and two numbers are wanted", r.Base, size.Shape)
	}
	rows, cols := int(order.Uint32(size.Data)), int(order.Uint32(size.Data[len(size.Data)/2:]))
	words, groups := codes.Shape[1], scales.Shape[1]
	bits, padded := widthOf(words, cols)
	switch {
	case codes.Shape[0] != rows || scales.Shape[0] != rows || bits == 0:
		return nil, fmt.Errorf("tensor %s.weight_packed has the shape %d and %s.weight_scale %d, which do not fit a matrix of %d × %d", r.Base, codes.Shape, r.Base, scales.Shape, rows, cols)
	case cols%groups != 0 || cols%32 != 0:
		return nil, fmt.Errorf("tensor %s.weight_packed has rows of %d numbers in %d groups; multiples of 32 that the groups divide are supported", r.Base, cols, groups)
	}
	m := &intMatrix{Shape: Shape{Rows: rows, Cols: cols}, bits: bits, group: cols / groups, factor: 1,
		scales: grid{r.Base + ".weight_scale", scales.DType, scales.Data, groups, 1}}
	m.codes = func(dst []byte, from, to int) {
		for row := from; row < to; row++ {
			unpackRow(dst[(row-from)*cols:][:cols], codes.Data[4*row*words:], bits, padded)
		}
	}
	if err := m.packedZeros(files, r.Base+".weight_zero_point", groups); err != nil {
		return nil, err
	}
	if err := m.readGroups(files, r.Base+".weight_g_idx", groups); err != nil {
		return nil, err
	}
	if err := m.checkGroups(r.Base + ".weight_packed"); err != nil {
		return nil, err
	}
	m.choose(false)
	return m, m.scales.check()
}

// widthOf is of how many bits n codes are in so many words, densely or padded to whole codes a word; 0: they cannot be.
func widthOf(words, n int) (bits int, padded bool) {
	for bits := 2; bits <= 8; bits++ {
		if (n*bits+31)/32 == words {
			return bits, false
		}
	}
	for bits := 2; bits <= 8; bits++ {
		if per := 32 / bits; (n+per-1)/per == words {
			return bits, true
		}
	}
	return 0, false
}

// unpackRow takes a row's codes apart.
func unpackRow(dst, src []byte, bits int, padded bool) {
	if padded {
		per := 32 / bits
		for k := range dst {
			dst[k] = byte(order.Uint32(src[4*(k/per):])>>(k%per*bits)) & (1<<bits - 1)
		}
		return
	}
	var words [8]uint32
	for k := 0; k < len(dst); k += 32 {
		for i := range bits {
			words[i] = order.Uint32(src[4*i:])
		}
		unpackWords((*[32]byte)(dst[k:]), &words, bits)
		src = src[4*bits:]
	}
}

// packedZeros reads zero points that are packed along rows, where the file has them.
func (m *intMatrix) packedZeros(files Tensors, name string, groups int) error {
	if _, ok := files.(packedFile).Bytes(name); !ok {
		return nil
	}
	t, err := rawMatrix(files, name, "I32")
	if err != nil {
		return err
	}
	stream := bitStream{nil, m.bits}
	if t.Shape[0] != stream.words(m.Rows) || t.Shape[1] != groups {
		return fmt.Errorf("tensor %s has the shape %d, and [%d %d] is wanted", name, t.Shape, stream.words(m.Rows), groups)
	}
	m.zero = func(row, group int) int {
		bit := row * m.bits
		v := uint64(order.Uint32(t.Data[4*(bit/32*groups+group):]))
		if bit%32+m.bits > 32 {
			v |= uint64(order.Uint32(t.Data[4*((bit/32+1)*groups+group):])) << 32
		}
		return int(v>>(bit%32)) & (1<<m.bits - 1)
	}
	return nil
}

// Ints is a matrix of signed bytes, Codes i8 [rows, cols], as compressed-tensors' int-quantized and LLM.int8 have it: Scales [1], [rows] or
// [rows, groups], each by Divisor, and Zeros i8 of the same shape, if the file has them.
type Ints struct {
	Codes, Scales, Zeros string
	Divisor              int
}

func (r Ints) String() string { return fmt.Sprintf("ints(%s, %s)", r.Codes, r.Scales) }

func (r Ints) open(files Tensors) (source, error) {
	codes, err := rawMatrix(files, r.Codes, "I8")
	if err != nil {
		return nil, err
	}
	rows, cols := codes.Shape[0], codes.Shape[1]
	scales, groups, err := rowScales(files, r.Scales, rows)
	if err != nil {
		return nil, err
	}
	m := &intMatrix{Shape: Shape{Rows: rows, Cols: cols}, bits: 8, group: cols / max(groups, 1), factor: 1 / float32(r.Divisor), scales: scales}
	m.codes = func(dst []byte, from, to int) {
		for i, c := range codes.Data[from*cols : to*cols] {
			dst[i] = c + 128
		}
	}
	if z, ok := files.(packedFile).Bytes(r.Zeros); ok {
		if len(z.Data) != scales.count() || z.DType != "I8" {
			return nil, fmt.Errorf("tensor %s is %s of shape %d, and a byte for each of %d scales is wanted", r.Zeros, z.DType, z.Shape, scales.count())
		}
		m.zero = func(row, group int) int { return int(int8(z.Data[row*scales.row+group*scales.group])) + 128 }
	}
	if err := m.checkGroups(r.Codes); err != nil {
		return nil, err
	}
	m.choose(true)
	return m, m.scales.check()
}

// rowScales are the scales of a matrix of rows: one for all, one for each row, or groups of a row's.
func rowScales(files Tensors, name string, rows int) (grid, int, error) {
	t, err := raw(files, name, floatTypes...)
	if err != nil {
		return grid{}, 0, err
	}
	g := grid{name: name, dtype: t.DType, data: t.Data}
	switch n := g.count(); {
	case n == 1:
		return g, 1, nil
	case n == rows:
		g.row = 1
		return g, 1, nil
	case n > 0 && n%rows == 0:
		g.row, g.group = n/rows, 1
		return g, n / rows, nil
	}
	return grid{}, 0, fmt.Errorf("tensor %s has the shape %d, and scales of %d rows are wanted", name, t.Shape, rows)
}

// putF32 writes a float.
func putF32(dst []byte, v float32) { order.PutUint32(dst, math.Float32bits(v)) }
