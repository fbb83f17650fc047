package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// fromHF is a Hugging Face model as a file: what its graph reads, under GGUF's names. Matrices keep their format;
// vectors become F32.
func fromHF(b *modeldir.Dir) (*file, []string, error) {
	e, err := b.Model.Export()
	if err != nil {
		return nil, nil, err
	}
	f := &file{meta: e.Meta}
	numbers := int64(0)
	for _, x := range e.Tensors {
		t, err := exported(b, x)
		if err != nil {
			return nil, nil, err
		}
		f.tensors = append(f.tensors, t)
		numbers += int64(x.Rows) * int64(x.Cols)
	}
	if err := addHead(f, b); err != nil {
		return nil, nil, err
	}
	f.meta["general.type"] = "model"
	f.meta["general.name"] = b.Name
	f.meta["general.size_label"] = SizeLabel(numbers)
	notes, err := addText(f.meta, b)
	if err != nil {
		return nil, nil, err
	}
	f.sortKeys()
	if w := slices.Max(b.Model.Config.Windows); w > 0 && b.Model.Arch.Name != "gemma3" {
		notes = append(notes, fmt.Sprintf("llama.cpp does not know that this model looks back %d tokens only: on longer texts its results are others", w))
	}
	return f, notes, nil
}

// SizeLabel is a number of weights as people say it: "135M", "1.2B".
func SizeLabel(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0fK", float64(n)/1e3)
}

// exported is a tensor of the model's own file, to be written as x says.
func exported(b *modeldir.Dir, x model.Exported) (tensor, error) {
	t := inGGUF(x)
	if x.Values != nil {
		t.rows = constant(x.Values)
		return t, nil
	}
	q, ok := b.Tensor(x.Tensor)
	if !ok {
		return t, fmt.Errorf("convert: %s has no tensor %s", b.Source.Path, x.Tensor)
	}
	switch {
	case x.Stack != nil:
		rows, err := stacked(b, x)
		t.rows = rows
		return t, err
	case x.Change.OfExperts():
		if q.Format.Block() != 1 {
			return t, fmt.Errorf("convert: %s: tensor %s is in %s, which cannot be taken apart by columns; F32, F16 and BF16 can", b.Source.Path, x.Tensor, q.Format)
		}
		first, every := x.Change.Columns()
		columns := quant.Columns{First: first, Every: every, Down: x.Change.Transposes()}
		t.rows = func(buf []byte, from, to int) []byte {
			_ = q.Gather(buf, x.Cols, from, to, columns) // its format has been checked
			return buf
		}
	case x.Change == graph.Transpose:
		if q.Format.Block() != 1 {
			return t, fmt.Errorf("convert: %s: tensor %s is in %s, which cannot be transposed; F32, F16 and BF16 can", b.Source.Path, x.Tensor, q.Format)
		}
		t.rows = transposed(q)
	case x.Change == graph.PlusOne:
		t.rows = plusOne(q)
	case x.Pair != nil:
		t.rows = paired(q, *x.Pair)
	default:
		t.rows = windows(q)
	}
	return t, nil
}

// inGGUF is the tensor without its numbers: a matrix in its own format, or a vector in F32.
func inGGUF(x model.Exported) tensor {
	t := tensor{name: x.Name, shape: []int{x.Rows, x.Cols}, format: x.Format, as: x.Format}
	switch {
	case x.Rows == 1:
		t.shape = t.shape[1:]
	case x.Experts > 0 && x.Rows > x.Experts:
		t.shape = []int{x.Experts, x.Rows / x.Experts, x.Cols}
	}
	if !t.quantizable() {
		t.as = quant.F32
	}
	return t
}

// constant hands out the numbers of a vector in F32.
func constant(x []float32) func([]byte, int, int) []byte {
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return func([]byte, int, int) []byte { return data }
}

// windows hands out rows as they are.
func windows(q quant.Tensor) func([]byte, int, int) []byte {
	return func(_ []byte, from, to int) []byte { return q.RowSpan(from, to).Data }
}

// stacked hands out rows of several tensors of one size as if they lay one below the other.
func stacked(b *modeldir.Dir, x model.Exported) (func([]byte, int, int) []byte, error) {
	var parts []quant.Tensor
	for _, name := range x.Stack {
		q, ok := b.Tensor(name)
		if !ok || q.Format != x.Format || q.Rows != x.Rows/len(x.Stack) || q.Cols != x.Cols {
			return nil, fmt.Errorf("convert: %s: tensor %s is missing or not like %s, beside which it is to lie in %s", b.Source.Path, name, x.Tensor, x.Name)
		}
		parts = append(parts, q)
	}
	each := parts[0].Rows
	return func(buf []byte, from, to int) []byte {
		buf = buf[:0]
		for from < to {
			i := from / each
			end := min(to, (i+1)*each)
			buf = append(buf, parts[i].RowSpan(from-i*each, end-i*each).Data...)
			from = end
		}
		return buf
	}, nil
}

// transposed hands out columns as rows.
func transposed(q quant.Tensor) func([]byte, int, int) []byte {
	size := q.Format.BlockBytes()
	return func(buf []byte, from, to int) []byte {
		for r := range q.Rows {
			row := q.Row(r)
			for c := from; c < to; c++ {
				copy(buf[((c-from)*q.Rows+r)*size:][:size], row[c*size:])
			}
		}
		return buf
	}
}

// plusOne hands out 1 + w in F32.
func plusOne(q quant.Tensor) func([]byte, int, int) []byte {
	return func(buf []byte, from, to int) []byte {
		x := make([]float32, (to-from)*q.Cols)
		quant.Decode(q.Format, x, q.RowSpan(from, to).Data)
		for i := range x {
			binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(1+x[i]))
		}
		return buf
	}
}

// paired hands out the rows of each head so that those which turn together become neighbours. A bias, which is one row,
// has its numbers reordered instead.
func paired(q quant.Tensor, h model.Head) func([]byte, int, int) []byte {
	unit := int(q.Format.RowBytes(q.Cols))
	if q.Rows == 1 {
		unit = q.Format.BlockBytes()
	}
	return func(buf []byte, from, to int) []byte {
		if q.Rows == 1 {
			to = q.Cols
		}
		for i := from; i < to; i++ {
			within := i % h.Size
			at := i - within + halfApart(within, h)
			copy(buf[(i-from)*unit:][:unit], q.Data[at*unit:])
		}
		return buf
	}
}

// halfApart is the place in a head of what goes to place i.
func halfApart(i int, h model.Head) int {
	if i >= h.Turning {
		return i
	}
	return i/2 + i%2*h.Turning/2
}
