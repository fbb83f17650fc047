package recipe

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// ScaledBlocks is a matrix, or stacked ones, in a GGUF file's format that may have a tensor of scales beside it (NVFP4): one scale, or one
// for each matrix.
type ScaledBlocks struct{ Of, Scales string }

func (r ScaledBlocks) String() string { return fmt.Sprintf("scaled(%s, %s)", r.Of, r.Scales) }

type scaledBlocks struct {
	Shape
	blocks quant.Tensor
	scales []float32
}

func (r ScaledBlocks) open(files Tensors) (source, error) {
	t, ok := files.Tensor(r.Of)
	if !ok || t.Format.Descriptor().Scaled == quant.Invalid {
		return nil, fmt.Errorf("the file has no tensor %s in a format with scales of whole tensors, such as NVFP4", r.Of)
	}
	s, ok := files.Tensor(r.Scales)
	if !ok || s.Format != quant.F32 || t.Rows%(s.Rows*s.Cols) != 0 {
		return nil, fmt.Errorf("tensor %s is not one scale in F32, or one for each matrix of %s, which has %d rows", r.Scales, r.Of, t.Rows)
	}
	m := &scaledBlocks{Shape{t.Format.Descriptor().Scaled, t.Rows, t.Cols}, t, make([]float32, s.Rows*s.Cols)}
	quant.Decode(quant.F32, m.scales, s.Data)
	return m, (&grid{name: r.Scales, dtype: "F32", data: s.Data}).check()
}

func (m *scaledBlocks) shape() Shape { return m.Shape }

func (*scaledBlocks) window(int, int) []byte { return nil }

func (m *scaledBlocks) read(dst []byte, from, to int) {
	rowBytes := int(m.Format.RowBytes(m.Cols))
	for r := from; r < to; r++ {
		quant.ScaleRow(m.blocks.Format, dst[:rowBytes], m.blocks.Row(r), m.scales[r/(m.Rows/len(m.scales))])
		dst = dst[rowBytes:]
	}
}
