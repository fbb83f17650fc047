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

// weight is a matrix of the model, or a vector. It goes to the device when a kernel binds it, in the layout that the kernel reads; most
// are read in one layout only.
type weight struct {
	name   string
	tensor quant.Tensor              // in host memory, usually the mapped file
	format quant.Format              // of the graph; another than the tensor's where the device quantises it on load
	on     map[graph.Type]driver.Ptr // row-major copies on the device
	scales driver.Ptr                // of its rows, where it is on the device in 8 bits
	packed driver.Ptr                // still quantised; see kernels/gemm/packed
	upload *uploader                 // of its device

	asItIs        bool       // a launch reads its own copy, which must stay beside one that is interleaved
	interleaved   driver.Ptr // with the up matrix, where this is a gate; see densesm90.Interleave
	interleavedAs graph.Type
}

// Place implements backend.Device.
func (d *Device) Place(w *graph.Weight, matrices []quant.Tensor) (backend.Weight, error) {
	if w.Slots != nil {
		return newSlots(w), nil
	}
	on := map[graph.Type]driver.Ptr{}
	if w.Stack != (graph.Axis{}) {
		return &stack{name: w.Name, matrices: matrices, on: on, upload: d.upload}, nil
	}
	return &weight{name: w.Name, tensor: matrices[0], format: w.Format, on: on, upload: d.upload}, nil
}

// WhenCopied implements backend.DeferredUpload.
func (w *weight) WhenCopied(release func(part []byte)) {
	w.upload.release(func() { release(w.tensor.Data) })
}

// asFormat is the weight's shape in the graph's format; Data is the file's, which is in another one where the device quantises it.
func (w *weight) asFormat() quant.Tensor {
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
	if w.interleaved != 0 {
		n += 2 * w.interleavedAs.RowBytes(w.tensor.Cols) * int64(w.tensor.Rows)
	}
	if w.scales != 0 {
		n += 4 * int64(w.tensor.Rows)
	}
	if w.packed != 0 {
		panels, bytes := packed.Panels(w.asFormat())
		n += int64(panels) * int64(bytes)
	}
	return n
}

// floatType is the dtype to which a weight in a format is dequantised for activations of type act: BF16 for BF16 activations, since
// tensor cores multiply nothing else with them; for F32 activations the dtype that loses nothing.
func floatType(f quant.Format, act graph.Type) graph.Type {
	if act == graph.BF16 || f == quant.BF16 {
		return graph.BF16
	}
	return graph.F32
}

// resident is the weight on the device, row-major, as plain floats, or in 8 bits with w.scales.
func (d *Device) resident(w *weight, as graph.Type) (driver.Ptr, error) {
	if p, ok := w.on[as]; ok {
		return p, nil
	}
	if eightBit(as) {
		return d.quantised(w, as)
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
	d.upload.rows(p, t.Rows, int(as.RowBytes(t.Cols)), func(dst []byte, from, to int) { dequantise(dst, t, from, to, as) })
	return p, nil
}

// dequantise writes rows [from, to) of a tensor as floats of a type.
func dequantise(dst []byte, t quant.Tensor, from, to int, as graph.Type) {
	if as == graph.BF16 && t.Format == quant.BF16 || as == graph.F32 && t.Format == quant.F32 { // it is one of those floats: rows of an adapter may be short
		copy(dst, t.RowSpan(from, to).Data)
		return
	}
	row, size := make([]float32, t.Cols), int(as.RowBytes(t.Cols))
	for r := from; r < to; r++ {
		quant.Decode(t.Format, row, t.Row(r))
		encode(dst[(r-from)*size:], row, as)
	}
}

// interleaved is memory for a gate matrix and its up matrix as one of interleaved rows in a type, and run, which fills it and frees their own
// copies. run waits for the upload, so kernels should have been asked for before.
func (d *Device) interleaved(gate, up *weight, as graph.Type) (p driver.Ptr, run func() error, err error) {
	if gate.interleaved != 0 {
		return gate.interleaved, func() error { return nil }, nil
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
		gate.interleaved, gate.interleavedAs = p, as // only now: after an error, another attempt must not take it for done
		return errors.Join(d.dropCopy(gate, as), d.dropCopy(up, as))
	}, err
}

// readAsTheyAre says that a launch reads weights' own copies.
func readAsTheyAre(weights []backend.Weight) {
	for _, w := range weights {
		if w, ok := w.(*weight); ok {
			w.asItIs = true
		}
	}
}

// readsAsTheyAre reports whether a fused node reads its weights' own copies: all but gates and up matrices do, which are interleaved.
func readsAsTheyAre(n *graph.Node) bool {
	parts := graph.Parts(n)
	_, gated := parts[len(parts)-1].Op.(graph.ActMul)
	return !gated
}

// dropCopy frees the weight's copy of a type, which nothing on the device reads any more.
func (d *Device) dropCopy(w *weight, as graph.Type) error {
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
