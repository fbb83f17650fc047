package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// decoding is a bound matmul whose matrix is decoded as it is used: one input is multiplied with rows as they are decoded, a few with rows of floats, more
// with panels of NR rows of floats, and, if their rounding to Q8 is allowed, as many as ByteRows says with panels of bytes.
type decoding struct {
	d      *Device
	weight *matrix
	bias   vector
	rounds bool   // inputs, to acts
	acts   []byte // of all workers
}

// inBytes reports whether m rows of inputs, which may be rounded, are multiplied with a matrix in bytes: making a panel of them costs what some inputs gain.
func (d *Device) inBytes(f quant.Format, m int) bool { return m >= d.vec.ByteRows(f) }

// panelRows is the number of rows of inputs from which on a panel of floats is multiplied by the kernels of gemm, which pack the inputs
// for each.
const panelRows = 8

// decodesToBytes reports whether a matmul with a matrix that is decoded may round its inputs to Q8.
func decodesToBytes(n *graph.Node) bool {
	o, ok := n.Op.(graph.Linear)
	return ok && o.ActType == graph.Q8 && n.In[0].Type == graph.F32 && n.Weights[0].In.Len()%graph.Q8Block == 0
}

// bindDecoding binds one.
func bindDecoding(d *Device, n *graph.Node, a backend.Args) (body, error) {
	k := n.Weights[0].In.Len()
	p := &decoding{d: d, weight: a.Weights[0].(*matrix), bias: biasOf(a), rounds: decodesToBytes(n) && !d.deterministic}
	in, out, scratch := floats(a.In[0]), floats(a.Out[0]), raw(a.Scratch)
	panels := 4 * gemm.NR * k * d.pool.N()
	p.acts = scratch[panels:]
	return func(w *worker, b *backend.Batch) {
		if m := rows(n, b); m > 0 {
			from, to := w.share(p.weight.Rows, gemm.NR)
			p.run(w, as[float32](scratch[:panels])[w.id*gemm.NR*k:][:gemm.NR*k], out, in, m, from, to)
		}
	}, nil
}

// run multiplies m rows of inputs with rows [from, to), in a panel of NR rows of floats. All workers run at the same time.
func (p *decoding) run(w *worker, panel, out, in []float32, m, from, to int) {
	d := p.d
	if p.rounds && d.inBytes(p.weight.Format, m) {
		_, sub16 := d.vec.BytesOf(p.weight.Format)
		acts := gemm.ByteActs(d.tier, p.acts, m, p.weight.Cols, sub16)
		first, last := w.share(m, 1)
		acts.Fill(d.tier, in, first, last)
		w.sync()
		w.acts = acts
		d.multiplyBytes(w, p.weight, panel, out, m, from, to)
	} else {
		d.multiplyDecoded(w, p.weight, panel, out, in, m, from, to)
	}
	addBias(out, p.bias, 0, m, p.weight.Rows, from, to)
}

// multiplyBytes multiplies the worker's m rows of inputs in Q8 with rows [from, to) of a weight, of which it makes panels of bytes.
func (d *Device) multiplyBytes(w *worker, weight *matrix, panel, out []float32, m, from, to int) {
	k := weight.Cols
	row, bytes := panel[:k], gemm.NewBytePanel(d.tier, unsafe.Slice((*byte)(unsafe.Pointer(&panel[k])), 4*(gemm.NR-1)*k), k)
	for ; from < to; from += gemm.NR {
		n := min(gemm.NR, to-from)
		weights := d.bytePanel(weight, &bytes, row, from, n)
		gemm.Mul(d.tier, out[from:], weight.Rows, &weights, 0, n, &w.acts, 0, m, w.scratch)
	}
}

// bytePanel makes bytes of n rows from one on, NR at most.
func (d *Device) bytePanel(m *matrix, panel *gemm.BytePanel, row []float32, from, n int) gemm.Weights {
	size := int(m.Format.RowBytes(m.Cols))
	if m.Format == quant.INT8 && n == gemm.NR {
		data, scales := m.Data[from*size:(from+n)*size], [gemm.NR]float32{}
		for r := range scales {
			scales[r] = math.Float32frombits(binary.LittleEndian.Uint32(data[(r+1)*size-4:]))
		}
		return panel.WeightsOf(data, size, &scales)
	}
	makes, sub16 := d.vec.BytesOf(m.Format)
	for r := range gemm.NR {
		at := from + min(r, n-1) // rows behind the last are not used
		if makes {
			codes, scales := panel.Row(r)
			d.vec.Bytes(m.Format, codes, scales, m.Row(at))
			continue
		}
		d.vec.Expand(m.Format, row, m.Row(at))
		panel.SetRow(r, row)
	}
	return panel.Weights(n, sub16)
}

// multiplyDecoded multiplies m rows of inputs with rows [from, to) of a weight that it decodes, NR at a time, into a panel of floats.
func (d *Device) multiplyDecoded(w *worker, weight *matrix, panel, out, in []float32, m, from, to int) {
	k, width := weight.Cols, weight.Rows
	switch row := panel[:k]; {
	case m == 1 && !d.deterministic:
		x := d.vec.Input(weight.Format, in[:k], panel[k:2*k])
		d.vec.DotRows(out[from:to], &x, weight.Data[int64(from)*weight.Format.RowBytes(k):], row)
	case m < panelRows || d.deterministic:
		for o := from; o < to; o++ {
			d.vec.Expand(weight.Format, row, weight.Row(o))
			for r := range m {
				out[r*width+o] = d.vec.Dot(in[r*k:(r+1)*k], row)
			}
		}
	default:
		for ; from < to; from += gemm.NR {
			d.multiplyPanel(w, weight, panel, out, in, m, from, min(from+gemm.NR, to))
		}
	}
}

// multiplyPanel does so with NR rows or fewer.
func (d *Device) multiplyPanel(w *worker, weight *matrix, panel, out, in []float32, m, from, to int) {
	k := weight.Cols
	for o := from; o < to; o++ {
		d.vec.Expand(weight.Format, panel[(o-from)*k:(o-from+1)*k], weight.Row(o))
	}
	weights, err := gemm.Packed(quant.F32, to-from, k, unsafe.Slice((*byte)(unsafe.Pointer(&panel[0])), 4*(to-from)*k))
	if err != nil {
		panic(err) // the buffer is of that size: our bug
	}
	w.acts = gemm.FloatActs(in, m, k)
	gemm.Mul(d.tier, out[from:], weight.Rows, &weights, 0, to-from, &w.acts, 0, m, w.scratch)
}
