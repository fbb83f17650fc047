package recipe

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// intMatrix is a matrix of whole codes without sign, x = scale·(code − zero): what GPTQ, AWQ, compressed-tensors and LLM.int8 store, each in
// its own order. It is made in a block format that holds the numbers exactly.
type intMatrix struct {
	Shape
	bits   int
	group  int                            // columns that share a scale
	codes  func(dst []byte, from, to int) // of rows [from, to), a byte each, [rows][cols]
	zero   func(row, group int) int       // nil: 2^(bits−1)
	scales grid
	factor float32 // what scales are multiplied by
	groups []int32 // the group of each column, where columns of a group do not lie together; nil: column / group
}

// choose sets the format: of codes about a middle Q4_0, Q8_0 or, with one scale a row, INT8; of others UINT4 or UINT8.
func (m *intMatrix) choose(rowScale bool) {
	switch symmetric := m.symmetric(); {
	case m.groups != nil:
		m.Format = quant.F32
	case symmetric && rowScale && m.group == m.Cols && m.Cols%quant.INT8.Block() == 0:
		m.Format = quant.INT8
	case symmetric && m.bits <= 4:
		m.Format = quant.Q4_0
	case symmetric:
		m.Format = quant.Q8_0
	case m.bits <= 4:
		m.Format = quant.UINT4
	default:
		m.Format = quant.UINT8
	}
}

// symmetric reports whether all zero points are the middle of the codes; where they are, zero becomes nil.
func (m *intMatrix) symmetric() bool {
	if m.zero == nil {
		return true
	}
	for r := range m.Rows {
		for g := range m.Cols / m.group {
			if m.zero(r, g) != 1<<(m.bits-1) {
				return false
			}
		}
	}
	m.zero = nil
	return true
}

func (m *intMatrix) shape() Shape { return m.Shape }

func (*intMatrix) window(int, int) []byte { return nil }

// codeRows is how many rows' codes are taken apart together: layouts that go along columns have those of a cache line side by side.
const codeRows = 16

func (m *intMatrix) read(dst []byte, from, to int) {
	codes := make([]byte, codeRows*m.Cols)
	rowBytes := int(m.Format.RowBytes(m.Cols))
	for r := from; r < to; {
		n := min(to-r, codeRows-r%codeRows)
		m.codes(codes, r, r+n)
		for i := range n {
			m.putRow(dst[:rowBytes], codes[i*m.Cols:(i+1)*m.Cols], r+i)
			dst = dst[rowBytes:]
		}
		r += n
	}
}

// zeroOf is the zero point of a row's group.
func (m *intMatrix) zeroOf(row, group int) int {
	if m.zero == nil {
		return 1 << (m.bits - 1)
	}
	return m.zero(row, group)
}

// putRow writes a row of codes in the matrix's format.
func (m *intMatrix) putRow(dst, codes []byte, row int) {
	switch {
	case m.groups != nil: // in F32
		for k, c := range codes {
			g := int(m.groups[k])
			putF32(dst[4*k:], float32(int(c)-m.zeroOf(row, g))*(m.scales.at(row, g)*m.factor))
		}
	case m.Format.ScaledRows():
		for k, c := range codes {
			dst[k] = c - byte(m.zeroOf(row, 0))
		}
		putF32(dst[len(codes):], m.scales.at(row, 0)*m.factor)
	default:
		size := m.Format.BlockBytes()
		for k := 0; k < len(codes); k += 32 {
			g := k / m.group
			quant.PutCodes(m.Format, dst[:size], codes[k:k+32], m.scales.at(row, g)*m.factor, m.zeroOf(row, g))
			dst = dst[size:]
		}
	}
}

// checkGroups refuses groups that blocks of 32 numbers cannot follow.
func (m *intMatrix) checkGroups(name string) error {
	switch {
	case m.group < 1 || m.Cols%m.group != 0:
		return fmt.Errorf("%s has rows of %d numbers in groups of %d, which do not divide them", name, m.Cols, m.group)
	case m.groups == nil && (m.group%32 != 0 || m.Cols%32 != 0):
		return fmt.Errorf("%s has groups of %d numbers, and multiples of 32 are supported", name, m.group)
	}
	return nil
}
