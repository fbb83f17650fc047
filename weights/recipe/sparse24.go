package recipe

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// Sparse24 is a matrix of which two of each four numbers are stored, as compressed-tensors' sparse-24-bitmask has it: Base.shape i64 [2],
// Base.compressed [rows, cols/2], the numbers in order, and Base.bitmask u8 [rows, ⌈cols/8⌉], bit j of byte i for number 8i+j of a row. It is made in
// BF16_2_4 or F16_2_4 or, where rows do not divide into the blocks of these, and of F32, in its dtype with the zeros put in.
type Sparse24 struct{ Base string }

func (r Sparse24) String() string { return fmt.Sprintf("sparse24(%s)", r.Base) }

type sparse24 struct {
	Shape
	values, masks []byte
	maskBytes     int // of a row
}

func (r Sparse24) open(files Tensors) (source, error) {
	values, err := rawMatrix(files, r.Base+".compressed", floatTypes...)
	if err != nil {
		return nil, err
	}
	masks, err := rawMatrix(files, r.Base+".bitmask", "U8")
	if err != nil {
		return nil, err
	}
	size, err := raw(files, r.Base+".shape", "I64", "I32")
	if err != nil {
		return nil, err
	}
	rows, cols := values.Shape[0], 2*values.Shape[1]
	if len(size.Data) != 8 && len(size.Data) != 16 {
		return nil, fmt.Errorf("tensor %s.shape has the shape %d, and two numbers are wanted", r.Base, size.Shape)
	}
	if m, n := int(order.Uint32(size.Data)), int(order.Uint32(size.Data[len(size.Data)/2:])); m != rows || n != cols {
		return nil, fmt.Errorf("tensor %s.shape says %d × %d, and %s.compressed has two of each four numbers of %d × %d", r.Base, m, n, r.Base, rows, cols)
	}
	if masks.Shape[0] != rows || masks.Shape[1] != (cols+7)/8 || cols%8 != 0 {
		return nil, fmt.Errorf("tensor %s.bitmask has the shape %d, and [%d %d] is wanted, of rows of a multiple of 8 numbers", r.Base, masks.Shape, rows, (cols+7)/8)
	}
	if at := quant.CheckSparse(masks.Data); at >= 0 {
		return nil, fmt.Errorf("byte %d of tensor %s.bitmask is %08b, which does not keep two of each four numbers; the file is damaged, get it again", at, r.Base, masks.Data[at])
	}
	m := &sparse24{Shape{Rows: rows, Cols: cols}, values.Data, masks.Data, cols / 8}
	m.Format = map[string]quant.Format{"BF16": quant.BF16_2_4, "F16": quant.F16_2_4, "F32": quant.F32}[values.DType]
	if m.Format != quant.F32 && cols%m.Format.Block() != 0 {
		m.Format = m.Format.Descriptor().Sparsity.Values
	}
	return m, nil
}

func (m *sparse24) shape() Shape { return m.Shape }

func (*sparse24) window(int, int) []byte { return nil }

func (m *sparse24) read(dst []byte, from, to int) {
	rowBytes := len(m.values) / m.Rows
	for r := from; r < to; r++ {
		values, masks := m.values[r*rowBytes:(r+1)*rowBytes], m.masks[r*m.maskBytes:(r+1)*m.maskBytes]
		if m.Format.Block() == 1 {
			dst = m.readDense(dst, values, masks)
			continue
		}
		for ; len(masks) > 0; masks, values = masks[8:], values[64:] {
			copy(dst, masks[:8])
			copy(dst[8:], values[:64])
			dst = dst[72:]
		}
	}
}

// readDense puts a row's zeros in; it returns what is left of dst.
func (m *sparse24) readDense(dst, values, masks []byte) []byte {
	size := m.Format.BlockBytes()
	for _, mask := range masks {
		for j := range 8 {
			clear(dst[:size])
			if mask>>j&1 != 0 {
				values = values[copy(dst[:size], values):]
			}
			dst = dst[size:]
		}
	}
	return dst
}
