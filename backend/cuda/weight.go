package cuda

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// weight is a weight of the model. It goes to the device when a kernel binds it, in the layout that the kernel reads; most
// are read in one layout only.
type weight struct {
	name   string
	tensor quant.Tensor // as files have it
	format quant.Format // as the graph means it
	on     map[graph.Type]driver.Ptr
	woven  driver.Ptr // with the up matrix, when this is a gate; see densesm90.Interleave
	scales driver.Ptr // of its rows, when it is in numbers of eight bits
	packed driver.Ptr // still quantised; see kernels/gemm/packed

	expertBytes int64 // of packed, when it is among those of other experts; see kernels/moe

	wovenAs graph.Type
	upload  *uploader // of its device
}

// Place implements backend.Device.
func (d *Device) Place(w *graph.Weight, matrices []quant.Tensor) (backend.Weight, error) {
	all := make(stack, len(matrices))
	for i, t := range matrices {
		all[i] = &weight{name: w.Name, tensor: t, format: w.Format, on: map[graph.Type]driver.Ptr{}, upload: d.upload}
	}
	if w.Stack == (graph.Axis{}) {
		return all[0], nil
	}
	return all, nil
}

// stack is the matrices of a stacked weight.
type stack []*weight

// Bytes implements backend.Weight.
func (s stack) Bytes() (n int64) {
	for _, w := range s {
		n += w.Bytes()
	}
	return n
}

// WhenCopied implements backend.DeferredUpload.
func (s stack) WhenCopied(release func(part []byte)) {
	for _, w := range s {
		w.WhenCopied(release)
	}
}

// WhenCopied implements backend.DeferredUpload.
func (w *weight) WhenCopied(release func(part []byte)) {
	w.upload.release(func() { release(w.tensor.Data) })
}

// meant is the weight in the graph's format; Data is the file's, in another one where the device turns it.
func (w *weight) meant() quant.Tensor {
	t := w.tensor
	t.Format = w.format
	return t
}

// Bytes implements backend.Weight: what the weight takes on the device, once kernels have bound it.
func (w *weight) Bytes() int64 {
	var n int64
	for t := range w.on {
		n += t.RowBytes(w.tensor.Cols) * int64(w.tensor.Rows)
	}
	if w.woven != 0 {
		n += 2 * w.wovenAs.RowBytes(w.tensor.Cols) * int64(w.tensor.Rows)
	}
	if w.scales != 0 {
		n += 4 * int64(w.tensor.Rows)
	}
	if w.expertBytes != 0 {
		n += w.expertBytes
	} else if w.packed != 0 {
		pieces, bytes := packed.Panels(w.meant())
		n += int64(pieces) * int64(bytes)
	}
	return n
}

// plainType is the type of floats in which a weight serves rows of type act: BF16 for all that BF16 rows meet, since the
// tensor cores multiply nothing else with them; for F32 rows the type that loses nothing.
func (w *weight) plainType(act graph.Type) graph.Type {
	if act == graph.BF16 || w.tensor.Format == quant.BF16 {
		return graph.BF16
	}
	return graph.F32
}

// resident is the weight on the device, row-major, as plain floats, or as numbers of eight bits beside w.scales.
func (d *Device) resident(w *weight, as graph.Type) (driver.Ptr, error) {
	if p, ok := w.on[as]; ok {
		return p, nil
	}
	if eightBit(as) {
		return d.rounded(w, as)
	}
	t := w.tensor
	p, err := d.alloc(as.RowBytes(t.Cols)*int64(t.Rows), "weight "+w.name)
	if err != nil {
		return 0, err
	}
	w.on[as] = p
	if t.Format == quant.BF16 && as == graph.BF16 || t.Format == quant.F32 && as == graph.F32 {
		d.upload.bytes(p, t.Data)
		return p, nil
	}
	d.upload.rows(p, t.Rows, int(as.RowBytes(t.Cols)), func(dst []byte, from, to int) {
		row := make([]float32, t.Cols)
		for r := from; r < to; r++ {
			quant.Decode(t.Format, row, t.Row(r))
			encode(dst[(r-from)*int(as.RowBytes(t.Cols)):], row, as)
		}
	})
	return p, nil
}

// woven is a place for a gate and the up matrix beside it as one matrix of numbers of a type, and what lays them there and frees theirs. That
// waits for weights to come, so that kernels should have been asked for before.
func (d *Device) woven(gate, up *weight, as graph.Type) (p driver.Ptr, weave func() error, err error) {
	if gate.woven != 0 {
		return gate.woven, func() error { return nil }, nil
	}
	a, err := d.resident(gate, as)
	if err != nil {
		return 0, nil, err
	}
	b, err := d.resident(up, as)
	if err != nil {
		return 0, nil, err
	}
	rows, cols := gate.tensor.Rows, gate.tensor.Cols
	p, err = d.alloc(2*as.RowBytes(cols)*int64(rows), "weights "+gate.name+" and "+up.name)
	return p, func() error {
		if err := d.upload.wait(); err != nil {
			return err
		}
		if err := densesm90.Interleave(d.loader, d.stream, a, b, p, rows, kernels.Pairs(as, cols)); err != nil {
			return err
		}
		if err := d.stream.Synchronize(); err != nil {
			return err
		}
		gate.woven, gate.wovenAs = p, as // not before: who tries again after an error must not take it for woven
		return errors.Join(d.forget(gate, as), d.forget(up, as))
	}, err
}

// forget frees the weight's copy of a type, which nothing on the device reads any more.
func (d *Device) forget(w *weight, as graph.Type) error {
	p := w.on[as]
	delete(w.on, as)
	return d.drop(p)
}

// vector is a weight of one row as F32, whatever the file has: norms and biases are small.
func (d *Device) vector(w backend.Weight) (driver.Ptr, error) {
	return d.resident(w.(*weight), graph.F32)
}

// encode writes numbers as F32 or BF16, to nearest even.
func encode(dst []byte, src []float32, as graph.Type) {
	if as == graph.F32 {
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
		return
	}
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:2*i+2], quant.F32ToBF16(x))
	}
}
