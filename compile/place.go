package compile

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// place makes the graph's weights resident. A weight that is in the file as the graph means it is handed over as the
// window into the file; only a changed one is copied.
func (p *Program) place(files Tensors) (map[*graph.Weight]backend.Weight, error) {
	placed := map[*graph.Weight]backend.Weight{}
	changed := map[change]quant.Tensor{}
	for _, w := range p.Graph.Weights {
		t, err := find(files, w, changed)
		if err != nil {
			return nil, err
		}
		r, err := p.dev.Place(w, t)
		if err != nil {
			return nil, fmt.Errorf("compile: weight %s: %w", w.Name, err)
		}
		placed[w] = r
	}
	return placed, nil
}

// change is a tensor of a file and what is done to it.
type change struct {
	tensor string
	to     graph.Change
}

// find is the tensor that w stands for; changed keeps what other parts of the same tensor need again.
func find(files Tensors, w *graph.Weight, changed map[change]quant.Tensor) (quant.Tensor, error) {
	key := change{w.Source.Tensor, w.Source.Change}
	t, ok := changed[key]
	if !ok {
		if t, ok = files.Tensor(w.Source.Tensor); !ok {
			return t, fmt.Errorf("compile: the file has no tensor %s for weight %s", w.Source.Tensor, w.Name)
		}
		if w.Source.Change != graph.AsIs {
			var err error
			if t, err = Changed(t, w.Source.Change, w.In.Len()); err != nil {
				return t, fmt.Errorf("compile: tensor %s: %w", w.Source.Tensor, err)
			}
			changed[key] = t
		}
	}
	rows, cols := w.Out.Len(), w.In.Len()
	switch {
	case t.Rows == rows && t.Cols == cols:
		return t, nil
	case t.Rows == 1 && rows == 1: // part of a vector
		return quant.NewTensor(t.Format, 1, cols, t.Data[t.Format.RowBytes(w.Source.From):t.Format.RowBytes(w.Source.From+cols)])
	default:
		return t.RowSpan(w.Source.From, w.Source.From+rows), nil
	}
}

// Changed is a tensor of a file turned into what the graph means by it, rows of so many numbers; the data is new.
func Changed(t quant.Tensor, c graph.Change, cols int) (quant.Tensor, error) {
	if c.OfExperts() {
		rows := t.Rows * t.Cols / cols
		first, every := c.Columns()
		rows /= every
		data := make([]byte, int64(rows)*t.Format.RowBytes(cols))
		err := t.Gather(data, cols, 0, rows, quant.Columns{First: first, Every: every, Down: c.Transposes()})
		return quant.Tensor{Format: t.Format, Rows: rows, Cols: cols, Data: data}, err
	}
	switch c {
	case graph.Transpose:
		size := t.Format.BlockBytes()
		if t.Format.Block() != 1 {
			return t, fmt.Errorf("a tensor in %s cannot be transposed; only F32, F16 and BF16 can", t.Format)
		}
		data := make([]byte, len(t.Data))
		for r := range t.Rows {
			for k := range t.Cols {
				copy(data[(k*t.Rows+r)*size:][:size], t.Data[(r*t.Cols+k)*size:])
			}
		}
		return quant.NewTensor(t.Format, t.Cols, t.Rows, data)
	case graph.PlusOne:
		row := make([]float32, t.Cols)
		data := make([]byte, 0, 4*t.Rows*t.Cols)
		for r := range t.Rows {
			quant.Decode(t.Format, row, t.Row(r))
			for _, x := range row {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(1+x))
			}
		}
		return quant.NewTensor(quant.F32, t.Rows, t.Cols, data)
	default:
		return t, nil
	}
}
