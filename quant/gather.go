package quant

import "fmt"

// Columns is some of a tensor's columns: from First on every so many. Down says that rows are made of them: of a tensor that
// holds matrices of the same size one below the other, each is transposed.
type Columns struct {
	First, Every int
	Down         bool
}

// Gather writes rows [from, to), of cols numbers each, of what the columns of a tensor make to dst. Only formats without blocks can
// be taken apart so.
func (t Tensor) Gather(dst []byte, cols, from, to int, c Columns) error {
	if t.Format.Block() != 1 {
		return fmt.Errorf("quant: a tensor in %s cannot be taken apart by columns; F32, F16 and BF16 can", t.Format)
	}
	size := t.Format.BlockBytes()
	for r := from; r < to; r++ {
		row, column, down, right := r, c.First, 0, c.Every // of the row's first number, and from each to the next
		if c.Down {
			each := t.Cols / c.Every // rows that one matrix becomes
			row, column, down, right = r/each*cols, c.First+r%each*c.Every, 1, 0
		}
		for i := range cols {
			at := (row+i*down)*t.Cols + column + i*right
			copy(dst[((r-from)*cols+i)*size:][:size], t.Data[at*size:])
		}
	}
	return nil
}
