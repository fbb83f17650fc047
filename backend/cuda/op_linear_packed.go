package cuda

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/norm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// packedRows is up to how many rows a layer is computed from its packed weights; for more rows the weights are dequantised to bf16 first. On
// Hopper that was measured with four bits a weight (512 rows: 367 µs a layer instead of 497) and, up to 256 rows, with more.
func (d *Device) packedRows(f quant.Format) int {
	const columns = 256
	switch {
	case !d.hopper() || packed.Sparse(f): // which Hopper multiplies as they are in tiles of 128 rows and more
		return 64
	case f.RowBytes(columns)*8 < 5*columns:
		return 1024
	}
	return 256
}

// packs reports whether a layer's weight stays quantised on the device.
func packs(w *weight) bool { return packed.Has(w.format) }

// dequantisedBytes is the room for weights dequantised to bf16, for a 32nd of the GPU's memory at most. A layer that needs more is computed in
// groups of rows however many they are.
func (d *Device) dequantisedBytes() int64 { return min(1<<30, d.ctx.Memory/32) }

// packedOnDevice is the weight in the layout of kernels/gemm/packed.
func (d *Device) packedOnDevice(w *weight) (driver.Ptr, error) {
	if w.packed != 0 {
		return w.packed, nil
	}
	n, bytes := packed.Panels(w.asFormat())
	p, err := d.alloc(int64(n)*int64(bytes), "weight "+w.name)
	if err != nil {
		return 0, err
	}
	w.packed = p
	if w.tensor.Format != w.format {
		return p, d.quantisePacked(w, int64(n)*int64(bytes))
	}
	d.upload.rows(p, n, bytes, func(dst []byte, from, to int) { packed.Pack(dst, w.tensor, from, to) })
	return p, nil
}

// scratch is what kernels/gemm/packed's launches share.
func (d *Device) scratch() packed.Scratch {
	return packed.Scratch{Partial: d.partial, SplitKSums: d.sums, Arrived: d.counters, Squares: d.squares}
}

// bindPacked is bindTensor for weights of one format that packed.Has.
func (d *Device) bindPacked(layers []*part, act *part, pro *prologue) (func(*step) error, error) {
	x, buffer := layers[0].node.In[0], layers[0].args.In[0]
	format := layers[0].args.Weights[0].(*weight).format
	p := packed.Problem{X: at(buffer), Rows: roomFor(x, buffer), K: x.Axis.Len(), Gated: act != nil}
	dequantised := int64(0)
	for _, l := range layers {
		w, err := d.packedOnDevice(l.args.Weights[0].(*weight))
		if err != nil {
			return nil, err
		}
		bias, err := d.bias(l.args)
		if err != nil {
			return nil, err
		}
		part := packed.Part{W: w, Bias: bias, Y: at(l.args.Out[0]), N: l.node.Out[0].Axis.Len()}
		p.Parts, dequantised = append(p.Parts, part), dequantised+2*int64(part.N)*int64(p.K)
	}
	if act != nil {
		p.Parts[0].Y, p.Fn = at(act.args.Out[0]), int32(act.node.Op.(graph.ActMul).Fn)
	}
	few, err := packed.New(d.loader, format, p, d.scratch())
	if err != nil {
		return nil, err
	}
	var normed func(m int) error
	if pro != nil {
		if normed, err = d.bindNormed(p, pro, format, few); err != nil {
			return nil, err
		}
	}
	many := func(m int) error { return few.Launch(d.stream, m) }
	var sparse *densesm90.SparseKernel
	if packed.Sparse(format) {
		if sparse, err = packed.NewSparse(d.loader, p, d.sums); err != nil {
			return nil, err
		}
	}
	if sparse != nil {
		many = func(m int) error { return sparse.Launch(d.stream, m) }
	} else if dequantised <= d.dequantisedBytes() {
		if many, err = d.bindDequantised(p, format); err != nil {
			return nil, err
		}
	}
	kind, most := layers[0].node.Out[0].Rows, d.packedRows(format)
	return func(s *step) error {
		switch m := s.rows(kind); {
		case m > most:
			return many(m)
		case pro != nil && pro.unscaled != nil && packed.NormRows(format, m):
			return few.LaunchNormPrologue(d.stream, m, pro.unscaled, pro.eps)
		case pro != nil && m <= pro.rows:
			return normed(m)
		default:
			return few.Launch(d.stream, m)
		}
	}, nil
}

// bindNormed is a layer of few rows whose norm is not there, and which no product left unscaled. Kernels for sparse weights compute none: theirs is
// launched here, to where it is in steps of more rows.
func (d *Device) bindNormed(p packed.Problem, pro *prologue, format quant.Format, few *packed.Kernel) (func(m int) error, error) {
	if packed.Sparse(format) {
		k, err := norm.RMS(d.loader, graph.BF16, p.K)
		n := &norm.Params{X: pro.x, Weight: pro.weight, Y: p.X, N: int32(p.K), Groups: 1, Eps: pro.eps}
		return func(m int) error {
			n.Rows = int32(m)
			if err := k.Launch(d.stream, n); err != nil {
				return err
			}
			return few.Launch(d.stream, m)
		}, err
	}
	p.X, p.Norm, p.Eps = pro.x, pro.weight, pro.eps
	normed, err := packed.NewFused(d.loader, format, p)
	return func(m int) error { return normed.Launch(d.stream, m) }, err
}

// bindDequantised is a layer for many rows: its weights are dequantised to bf16 in memory that all layers share, and multiplied from there.
func (d *Device) bindDequantised(p packed.Problem, format quant.Format) (func(m int) error, error) {
	if d.dequantised == 0 {
		var err error
		if d.dequantised, err = d.alloc(d.dequantisedBytes(), "dequantised weights"); err != nil {
			return nil, err
		}
	}
	open, err := packed.FindDequantise(d.loader, format)
	if err != nil {
		return nil, err
	}
	wide := densesm90.Problem{Type: graph.BF16, X: p.X, Rows: p.Rows, K: p.K, Gated: p.Gated, Fn: p.Fn}
	jobs, to, fits := make([]packed.DequantiseParams, len(p.Parts)), d.dequantised, d.hopper()
	for i, part := range p.Parts {
		jobs[i] = packed.DequantiseParams{W: part.W, Y: to, N: int32(part.N), K: int32(p.K)}
		if p.Gated {
			jobs[i].Interleaved, jobs[i].Second = 1, int32(i)
		} else {
			wide.Weights = append(wide.Weights, densesm90.Weight{W: to, Bias: part.Bias, Y: part.Y, N: part.N})
			to += driver.Ptr(2 * part.N * p.K)
		}
		fits = fits && densesm90.Fits(graph.BF16, part.N, p.K)
	}
	if p.Gated {
		gate := p.Parts[0]
		wide.Weights = []densesm90.Weight{{W: to, Bias: gate.Bias, Bias2: p.Parts[1].Bias, Y: gate.Y, N: gate.N}}
	}
	multiply, err := d.bindProduct(wide, fits)
	if err != nil {
		return nil, err
	}
	return func(m int) error {
		for i := range jobs {
			if err := packed.Dequantise(d.stream, open, &jobs[i]); err != nil {
				return err
			}
		}
		// Hopper's kernels fetch weights before they wait for the launch ahead of them, as weights never change elsewhere.
		return d.inOrder(func() error { return multiply(m) })
	}, nil
}
