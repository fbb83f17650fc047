package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/packed"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/slab"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/tile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// packedRows is up to how many rows a layer is computed from its packed weights, in groups of packed.MaxRows; for more rows the
// weights are opened to bf16 first.
const packedRows = 64

// openedBytes is the room for weights opened to bf16, for a 32nd of the GPU's memory at most. A layer that needs more is computed in
// groups of rows however many they are.
func (d *Device) openedBytes() int64 { return min(1<<30, d.ctx.Memory/32) }

// packs reports whether a layer's weight stays quantised on the device.
func packs(w *weight) bool { return packed.Has(w.tensor.Format) || slab.Has(w.tensor.Format) }

// packedOnDevice is the weight in the layout of kernels/packed.
func (d *Device) packedOnDevice(w *weight) (driver.Ptr, error) {
	if w.packed != 0 {
		return w.packed, nil
	}
	n, bytes := packed.Tiles(w.tensor)
	p, err := d.alloc(int64(n)*int64(bytes), "weight "+w.name)
	if err != nil {
		return 0, err
	}
	w.packed = p
	return p, d.upload.rows(p, n, bytes, func(dst []byte, from, to int) { packed.Pack(dst, w.tensor, from, to) })
}

// bindPacked is bindTensor for weights of one format that packs.
func (d *Device) bindPacked(layers []*launch, act *launch) (func(*step) error, error) {
	x, buffer := layers[0].node.In[0], layers[0].args.In[0]
	format := layers[0].args.Weights[0].(*weight).tensor.Format
	if slab.Has(format) {
		return d.bindSlab(layers, act)
	}
	few := &packed.Params{X: at(buffer), K: int32(x.Axis.Len()), Parts: int32(len(layers))}
	opened := int64(0)
	for i, l := range layers {
		w, err := d.packedOnDevice(l.args.Weights[0].(*weight))
		if err != nil {
			return nil, err
		}
		bias, err := d.bias(l.args)
		if err != nil {
			return nil, err
		}
		few.Part[i] = packed.Part{W: w, Bias: bias, Y: at(l.args.Out[0]), N: int32(l.node.Out[0].Axis.Len())}
		opened += 2 * int64(few.Part[i].N) * int64(few.K)
	}
	if act != nil {
		few.Part[0].Y, few.Fn = at(act.args.Out[0]), int32(act.node.Op.(graph.ActMul).Fn)
	}
	k, err := packed.New(d.loader, format, act != nil)
	if err != nil {
		return nil, err
	}
	groups := func(m int) error {
		part := *few
		for ; m > 0; m -= packed.MaxRows {
			part.M = int32(min(m, packed.MaxRows))
			if err := k.Launch(d.stream, &part); err != nil {
				return err
			}
			part.X += driver.Ptr(2 * packed.MaxRows * int(part.K))
			for i := range part.Parts {
				part.Part[i].Y += driver.Ptr(2 * packed.MaxRows * int(part.Part[i].N))
			}
		}
		return nil
	}
	many := groups
	if opened <= d.openedBytes() {
		if many, err = d.openFirst(*few, format, act != nil, int(buffer.Len/x.RowBytes())); err != nil {
			return nil, err
		}
	}
	kind := layers[0].node.Out[0].Rows
	return func(s *step) error {
		if m := s.rows(kind); m > packedRows {
			return many(m)
		} else {
			return groups(m)
		}
	}, nil
}

// openFirst is a layer for many rows: its weights are opened to bf16 in memory that all layers share, and multiplied from there.
func (d *Device) openFirst(few packed.Params, format quant.Format, gated bool, rows int) (func(m int) error, error) {
	if d.opened == 0 {
		var err error
		if d.opened, err = d.alloc(d.openedBytes(), "opened weights"); err != nil {
			return nil, err
		}
	}
	open, err := packed.FindOpen(d.loader, format)
	if err != nil {
		return nil, err
	}
	parts := few.Part[:few.Parts]
	jobs, wide, to := make([]packed.Opened, len(parts)), gemm.Problem{Type: graph.BF16, X: few.X, Rows: rows, K: int(few.K), Gated: gated, Fn: few.Fn}, d.opened
	fits := d.hopper()
	for i, p := range parts {
		jobs[i] = packed.Opened{W: p.W, Y: to, N: p.N, K: few.K}
		if gated {
			jobs[i].Woven, jobs[i].Second = 1, int32(i)
		} else {
			wide.Weights = append(wide.Weights, gemm.Weight{W: to, Bias: p.Bias, Y: p.Y, N: int(p.N)})
			to += driver.Ptr(2 * int(p.N) * int(few.K))
		}
		fits = fits && gemm.Fits(graph.BF16, int(p.N), int(few.K))
	}
	if gated {
		wide.Weights = []gemm.Weight{{W: to, Bias: parts[0].Bias, Bias2: parts[1].Bias, Y: parts[0].Y, N: int(parts[0].N)}}
	}
	multiply, err := d.multiplier(wide, fits)
	if err != nil {
		return nil, err
	}
	return func(m int) error {
		for i := range jobs {
			if err := packed.Open(d.stream, open, &jobs[i]); err != nil {
				return err
			}
		}
		return multiply(m)
	}, nil
}

// multiplier is a product with weights that the launch before it writes. The kernels for Hopper fetch weights before they wait for
// that launch, as weights never change elsewhere; so this one may not start early.
func (d *Device) multiplier(p gemm.Problem, fits bool) (func(m int) error, error) {
	if fits {
		k, err := gemm.New(d.loader, p, d.partial, d.counters)
		if err != nil {
			return nil, err
		}
		return func(m int) error {
			overlap := d.stream.Overlap
			d.stream.Overlap = false
			defer func() { d.stream.Overlap = overlap }()
			return k.Launch(d.stream, m)
		}, nil
	}
	if len(p.Weights) != 1 || p.Gated {
		return nil, fmt.Errorf("cuda: %d layers of odd sizes cannot be joined", len(p.Weights))
	}
	k, err := tile.Find(d.loader, graph.BF16)
	if err != nil {
		return nil, err
	}
	w := p.Weights[0]
	t := &tile.Params{X: p.X, W: w.W, Bias: w.Bias, Y: w.Y, N: int32(w.N), K: int32(p.K)}
	return func(m int) error {
		t.M = int32(m)
		return tile.Launch(d.stream, k, t)
	}, nil
}
