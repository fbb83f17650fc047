package recipe

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// FP8 is a matrix of e4m3, Codes [rows, cols], with Scales that multiply: one, one a row ([rows] or [rows, 1]), or one for each block of
// BlockRows × BlockCols (0: 128), [⌈rows/BlockRows⌉, ⌈cols/BlockCols⌉], as DeepSeek's and Qwen's files have them.
type FP8 struct {
	Codes, Scales        string
	BlockRows, BlockCols int
}

func (r FP8) String() string { return fmt.Sprintf("fp8(%s, %s)", r.Codes, r.Scales) }

// fp8 is a matrix in FP8, whose rows have a scale, or in FP8_BLOCK.
type fp8 struct {
	Shape
	codes                []byte
	scales               grid
	blockRows, blockCols int
}

func (r FP8) open(files Tensors) (source, error) {
	codes, err := rawMatrix(files, r.Codes, "F8_E4M3")
	if err != nil {
		return nil, err
	}
	scales, err := raw(files, r.Scales, floatTypes...)
	if err != nil {
		return nil, err
	}
	blockRows, blockCols := r.BlockRows, r.BlockCols
	if blockRows <= 0 || blockCols <= 0 {
		blockRows, blockCols = 128, 128
	}
	rows, cols := codes.Shape[0], codes.Shape[1]
	m := &fp8{Shape{quant.FP8, rows, cols}, codes.Data, grid{name: r.Scales, dtype: scales.DType, data: scales.Data}, 1, cols}
	across, down := (cols+blockCols-1)/blockCols, (rows+blockRows-1)/blockRows
	switch s := scales.Shape; {
	case m.scales.count() == 1:
	case len(s) == 2 && s[0] == down && s[1] == across:
		m.Format, m.blockRows, m.blockCols = quant.FP8_BLOCK, blockRows, blockCols
		m.scales.row, m.scales.group = across, 1
	case m.scales.count() == rows:
		m.scales.row = 1
	default:
		return nil, fmt.Errorf("tensor %s has the shape %d, and one scale, %d for rows or %d × %d for blocks are wanted", r.Scales, s, rows, down, across)
	}
	if block := m.Format.Block(); cols%block != 0 || !m.Format.ScaledRows() && blockCols%block != 0 {
		return nil, fmt.Errorf("tensor %s has rows of %d numbers in blocks of %d, and multiples of %d are supported", r.Codes, cols, m.blockCols, block)
	}
	return m, m.scales.check()
}

func (m *fp8) shape() Shape { return m.Shape }

func (*fp8) window(int, int) []byte { return nil }

func (m *fp8) read(dst []byte, from, to int) {
	rowBytes := int(m.Format.RowBytes(m.Cols))
	for r := from; r < to; r++ {
		row, codes := dst[:rowBytes], m.codes[r*m.Cols:(r+1)*m.Cols]
		dst = dst[rowBytes:]
		if m.Format.ScaledRows() {
			putF32(row[copy(row, codes):], m.scales.at(r, 0))
			continue
		}
		block := m.Format.Block()
		for k := 0; k < m.Cols; k += block {
			putF32(row, m.scales.at(r/m.blockRows, k/m.blockCols))
			row = row[4+copy(row[4:], codes[k:k+block]):]
		}
	}
}
