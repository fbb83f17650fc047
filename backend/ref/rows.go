package ref

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// rowAt is the bytes of row r of a value.
func rowAt(v *graph.Value, b backend.Buffer, r int) []byte {
	size := v.RowBytes()
	off := b.Off + int64(r)*size
	return b.Mem.(*memory).bytes[off : off+size]
}

// load decodes stored numbers to float32; the layouts of F16 and BF16 are those of the weight formats.
func load(dst []float32, t graph.Type, src []byte) {
	switch t {
	case graph.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case graph.F16:
		quant.Decode(quant.F16, dst, src)
	case graph.BF16:
		quant.Decode(quant.BF16, dst, src)
	case graph.F8:
		for i := range dst {
			dst[i] = quant.E4M3ToF32(src[i])
		}
	case graph.Q8:
		loadQ8(dst, src)
	}
}

// store rounds float32 numbers to the type they are kept in.
func store(dst []byte, t graph.Type, src []float32) {
	switch t {
	case graph.F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case graph.F16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToF16(x))
		}
	case graph.BF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToBF16(x))
		}
	case graph.F8:
		for i, x := range src {
			dst[i] = quant.F32ToE4M3(x)
		}
	}
}

// read returns row r of the node's input i, and counts it.
func (d *Device) read(n *graph.Node, a backend.Args, i, r int) []float32 {
	v := n.In[i]
	x := make([]float32, v.Axis.Len())
	if row := rowAt(v, a.In[i], r); v.Type == graph.F8 || v.Type == graph.I8 {
		quant.Decode(v.Type.Format(), x, row)
	} else {
		load(x, v.Type, row)
	}
	d.counted.ValueRead += v.RowBytes()
	return x
}

// write stores row r of the node's output i, and counts it.
func (d *Device) write(n *graph.Node, a backend.Args, i, r int, y []float32) {
	v := n.Out[i]
	store(rowAt(v, a.Out[i], r), v.Type, y)
	d.counted.ValueWrite += v.RowBytes()
}

// weightRow decodes row r of the node's weight i, and counts it. Rows of a stack's matrices count on.
func (d *Device) weightRow(a backend.Args, i, r int) []float32 {
	matrices := a.Weights[i].(weight)
	t := matrices[r/matrices[0].Rows]
	r %= t.Rows
	w := make([]float32, t.Cols)
	quant.Decode(t.Format, w, t.Row(r))
	d.counted.WeightBytes += t.Format.RowBytes(t.Cols)
	return w
}

// flops counts arithmetic.
func (d *Device) flops(n int) { d.counted.FLOPs += int64(n) }

// rows is how many rows the node's first output has in this step.
func (d *Device) rows(n *graph.Node) int { return d.batch.Rows(n.Out[0].Rows) }
