package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/outliers"
	pertoken "github.com/ridge-llm/ridge/backend/cuda/kernels/quant/per_token"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Matrices of F8 and I8 lie on the device as codes, row by row, and behind those of all rows that there is room for the rows' scales.

// roomFor is how many rows of a value its buffer has room for.
func roomFor(v *graph.Value, b backend.Buffer) int { return int(b.Len / v.RowBytes()) }

// scalesOf is where the scales of such a value's rows are; 0 of other values. Kernels read them by twos, so of an odd number of rows what
// lies behind the last as well: rows are multiples of 16 bytes then (skinny.Fits), so the buffer ends 4 bytes before a multiple of 8, and
// the arena gives what lies behind a buffer, up to the next multiple of 256 bytes, to no other.
func scalesOf(v *graph.Value, b backend.Buffer) driver.Ptr {
	if !eightBit(v.Type) {
		return 0
	}
	return at(b) + driver.Ptr(roomFor(v, b)*v.Axis.Len())
}

// quantizes lists the ways to quantise rows.
func (d *Device) quantizes(n *graph.Node) []backend.Kernel {
	if x := n.In[0]; !eightBit(n.Out[0].Type) || !pertoken.Fits(x.Axis.Len()) {
		return nil
	}
	return d.one("round", bindQuantize)
}

func bindQuantize(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	x, y := n.In[0], n.Out[0]
	k, err := pertoken.Find(d.loader, x.Type, y.Type)
	p := &pertoken.Params{X: at(a.In[0]), Y: at(a.Out[0]), Scale: scalesOf(y, a.Out[0]), N: int32(x.Axis.Len()), Below: float32(n.Op.(graph.Quantize).Below)}
	return func(s *step) error {
		m := s.rows(y.Rows)
		if m == 0 {
			return nil
		}
		return pertoken.Launch(d.stream, k, m, p)
	}, err
}

// addOutliers lists the ways to add what numbers too large for eight bits come to.
func (d *Device) addOutliers(n *graph.Node) []backend.Kernel {
	if n.In[0].Type != graph.BF16 || n.Weights[0].Format != quant.INT8 || !outliers.Fits(n.In[1].Axis.Len()) {
		return nil
	}
	return []backend.Kernel{kernel{dev: d, name: "add outliers", bind: bindAddOutliers, scratch: func(n *graph.Node, lim backend.Limits) int64 {
		return outliers.Scratch(lim.Rows(n.Out[0].Rows), n.In[1].Axis.Len())
	}}}
}

func bindAddOutliers(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	return d.bindOutliers([]*part{{node: n, args: a}}, nil)
}

// bindOutliers binds what matrices of the same rows add, as one launch or two; with act, a gate and an up matrix, whose sums it joins. The first one's scratch is for all.
func (d *Device) bindOutliers(adds []*part, act *part) (func(*step) error, error) {
	first := adds[0]
	x := first.node.In[1].Axis.Len()
	k, err := outliers.New(d.loader, x, at(first.args.Scratch))
	if err != nil {
		return nil, err
	}
	p := &outliers.Params{X: at(first.args.In[1]), Parts: int32(len(adds)), K: int32(x), Threshold: float32(first.node.Op.(graph.AddOutliers).Threshold)}
	for i, add := range adds {
		w := add.args.Weights[0].(*weight)
		codes, err := d.resident(w, graph.I8)
		if err != nil {
			return nil, err
		}
		p.Part[i] = outliers.Part{W: codes, Scale: w.scales, Y: at(add.args.In[0]), Sum: at(add.args.Out[0]), N: int64(add.node.Out[0].Axis.Len())}
		if act != nil {
			p.Part[i].Sum = p.Part[i].Y
		}
	}
	if act != nil {
		p.Joined, p.Fn = at(act.args.Out[0]), int32(act.node.Op.(graph.ActMul).Fn)
	}
	rows := first.node.Out[0].Rows
	return func(s *step) error {
		if p.M = int32(s.rows(rows)); p.M == 0 {
			return nil
		}
		return k.Launch(d.stream, p)
	}, nil
}

// quantised is the weight on the device as codes; w.scales are its rows' scales. A weight in floats is rounded here, by the kernel that
// rounds activations.
func (d *Device) quantised(w *weight, as graph.Type) (driver.Ptr, error) {
	t := w.tensor
	codes, err := d.alloc(int64(t.Rows)*int64(t.Cols), "weight "+w.name)
	if err != nil {
		return 0, err
	}
	w.on[as] = codes
	if w.scales, err = d.alloc(4*int64(t.Rows), "the scales of weight "+w.name); err != nil {
		return 0, err
	}
	if t.Format.ScaledRows() {
		d.uploadQuantised(w, codes)
		return codes, nil
	}
	from := floatsOf(t)
	x, err := d.resident(w, from)
	if err != nil {
		return 0, err
	}
	k, err := pertoken.Find(d.loader, from, as)
	if err != nil {
		return 0, err
	}
	if err := d.upload.wait(); err != nil {
		return 0, err
	}
	if err := pertoken.Launch(d.stream, k, t.Rows, &pertoken.Params{X: x, Y: codes, Scale: w.scales, N: int32(t.Cols)}); err != nil {
		return 0, err
	}
	if err := d.stream.Synchronize(); err != nil {
		return 0, err
	}
	return codes, d.dropCopy(w, from)
}

// floatsOf is the type in which a tensor of floats goes to the device to be rounded there.
func floatsOf(t quant.Tensor) graph.Type {
	if t.Format == quant.BF16 {
		return graph.BF16
	}
	return graph.F32
}

// quantisePacked rounds a weight in floats to INT4, into its packed layout.
func (d *Device) quantisePacked(w *weight, bytes int64) error {
	from := floatsOf(w.tensor)
	x, err := d.resident(w, from)
	if err != nil {
		return err
	}
	k, err := packed.FindQuantise(d.loader, from)
	if err != nil {
		return err
	}
	if err := d.stream.Fill(w.packed, 0, bytes); err != nil {
		return err
	}
	if err := d.upload.wait(); err != nil {
		return err
	}
	if err := packed.Quantise(d.stream, k, &packed.QuantiseParams{X: x, W: w.packed, N: int32(w.tensor.Rows), K: int32(w.tensor.Cols)}); err != nil {
		return err
	}
	if err := d.stream.Synchronize(); err != nil {
		return err
	}
	return d.dropCopy(w, from)
}

// uploadQuantised sends the codes and scales of a weight that is rounded already.
func (d *Device) uploadQuantised(w *weight, codes driver.Ptr) {
	t := w.tensor
	part := func(to driver.Ptr, first, size int) {
		d.upload.rows(to, t.Rows, size, func(dst []byte, from, until int) {
			for r := from; r < until; r++ {
				copy(dst[(r-from)*size:][:size], t.Row(r)[first:])
			}
		})
	}
	part(codes, 0, t.Cols)
	part(w.scales, t.Cols, 4)
}
