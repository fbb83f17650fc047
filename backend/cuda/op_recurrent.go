package cuda

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/recurrent"
	"github.com/ridge-llm/ridge/graph"
)

// recurrents lists the ways to compute a recurrent layer.
func (d *Device) recurrents(n *graph.Node) []backend.Kernel {
	if recurrentRefusal(n) != "" {
		return nil
	}
	switch n.Op.(type) {
	case graph.CausalConv:
		return d.one("causal conv", bindCausalConv)
	case graph.GatedDelta, graph.KimiDelta:
		return []backend.Kernel{kernel{dev: d, name: "gated delta", bind: bindDelta, scratch: deltaScratch}}
	case graph.SSD:
		return []backend.Kernel{kernel{dev: d, name: "ssd", bind: bindSSD, scratch: ssdScratch}}
	default:
		return d.one("selective scan", bindSelectiveScan)
	}
}

// recurrentRefusal is why there is no kernel for a recurrent layer, "" if there is one.
func recurrentRefusal(n *graph.Node) string {
	what, size, most := "", 0, 0
	switch o := n.Op.(type) {
	case graph.CausalConv:
		what, size, most = "its convolution sees %d tokens", n.Weights[0].In.Len(), recurrent.MaxWidth
	case graph.GatedDelta:
		what, size, most = "its keys have %d numbers", o.KeySize, recurrent.MaxKeySize
	case graph.KimiDelta:
		what, size, most = "its keys have %d numbers", o.Size, recurrent.MaxKimiSize
	case graph.SSD:
		what, size, most = "its states have rows of %d numbers", o.StateSize, recurrent.MaxStateSize
	case graph.SelectiveScan:
		what, size, most = "its states have rows of %d numbers", n.In[2].Axis.Len(), recurrent.MaxScanSize
	}
	if size <= most {
		return ""
	}
	return fmt.Sprintf(what+", and %d is the most on a GPU; the CPU has no such limit", size, most)
}

// floats are weights on the device as F32, row-major.
func (d *Device) floats(weights []backend.Weight, to ...*driver.Ptr) error {
	for i, w := range weights {
		p, err := d.resident(w.(*weight), graph.F32)
		if err != nil {
			return err
		}
		*to[i] = p
	}
	return nil
}

func bindCausalConv(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	k, err := recurrent.NewConv(d.loader, n.In[0].Type, n.In[0].Axis.Len(), n.Weights[0].In.Len())
	if err != nil {
		return nil, err
	}
	c := n.In[1].Cache
	p := &recurrent.ConvParams{X: at(a.In[0]), Y: at(a.Out[0]), States: at(a.In[1]), Channels: int32(n.In[0].Axis.Len()), Width: int32(n.Weights[0].In.Len())}
	if n.Op.(graph.CausalConv).Silu {
		p.Silu = 1
	}
	return func(s *step) error {
		p.Step = s.of(c)
		return k.Launch(d.stream, s.tokens, s.seqs, p)
	}, d.floats(a.Weights, &p.W, &p.Bias)
}

// deltaOf is a node of GatedDelta or KimiDelta as its kernels see it, without memory, and whether prompts of its values go in chunks.
func deltaOf(n *graph.Node) (p recurrent.DeltaParams, s recurrent.DeltaShape, chunked bool) {
	switch o := n.Op.(type) {
	case graph.GatedDelta:
		s = recurrent.DeltaShape{KeySize: o.KeySize, ValueSize: o.ValueSize}
		p.KeyHeads, p.ValueHeads, p.Stride = int32(o.KeyHeads), int32(o.ValueHeads), int32(o.Width())
		if o.Tiled {
			p.Tiled = 1
		}
	case graph.KimiDelta:
		s = recurrent.DeltaShape{KeySize: o.Size, ValueSize: o.Size, EachKey: true}
		p.KeyHeads, p.ValueHeads, p.Stride = int32(o.Heads), int32(o.Heads), int32(o.Heads*o.Size)
	}
	p.KeySize, p.ValueSize, p.Scale = int32(s.KeySize), int32(s.ValueSize), float32(1/math.Sqrt(float64(s.KeySize)))
	return p, s, recurrent.Chunked(n.In[0].Type, s.KeySize, s.ValueSize)
}

func deltaScratch(n *graph.Node, lim backend.Limits) int64 {
	p, shape, chunked := deltaOf(n)
	if !chunked {
		return 0
	}
	return recurrent.DeltaScratch(lim.Tokens, lim.Seqs, int(p.ValueHeads), shape)
}

func bindDelta(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	p, shape, chunked := deltaOf(n)
	k, err := recurrent.NewDelta(d.loader, n.In[0].Type, shape, chunked && d.ctx.SharedBlock >= recurrent.ChunksShared)
	if err != nil {
		return nil, err
	}
	p.Q, p.Y = at(a.In[0]), at(a.Out[0])
	if shape.EachKey {
		p.K, p.V, p.Alpha, p.Beta, p.States = at(a.In[1]), at(a.In[2]), at(a.In[3]), at(a.In[4]), at(a.In[5])
	} else {
		keys := driver.Ptr(n.In[0].Type.RowBytes(int(p.KeyHeads * p.KeySize)))
		p.K, p.V, p.Alpha, p.Beta, p.States = p.Q+keys, p.Q+2*keys, at(a.In[1]), at(a.In[2]), at(a.In[3])
	}
	c := n.In[len(n.In)-1].Cache
	return func(s *step) error {
		p.Step = s.of(c)
		return k.Launch(d.stream, s.tokens, s.seqs, s.decodes+s.trees > 0, &p, at(a.Scratch))
	}, d.floats(a.Weights, &p.Decay, &p.Bias)
}

func ssdChunked(n *graph.Node) bool {
	o := n.Op.(graph.SSD)
	return recurrent.Chunked(n.In[0].Type, o.StateSize, o.HeadSize)
}

func ssdScratch(n *graph.Node, lim backend.Limits) int64 {
	if !ssdChunked(n) {
		return 0
	}
	return recurrent.SSDScratch(lim.Tokens, lim.Seqs, n.Op.(graph.SSD).Heads)
}

func bindSSD(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, c := n.Op.(graph.SSD), n.In[2].Cache
	k, err := recurrent.NewSSD(d.loader, n.In[0].Type, o.StateSize, ssdChunked(n) && d.ctx.SharedBlock >= recurrent.ChunksShared)
	if err != nil {
		return nil, err
	}
	p := &recurrent.SSDParams{
		X: at(a.In[0]), DT: at(a.In[1]), Y: at(a.Out[0]), States: at(a.In[2]),
		Heads: int32(o.Heads), HeadSize: int32(o.HeadSize), Groups: int32(o.Groups), StateSize: int32(o.StateSize),
		MinStep: float32(o.MinStep), MaxStep: float32(o.MaxStep),
	}
	if o.MaxStep == 0 {
		p.MaxStep = math.MaxFloat32
	}
	return func(s *step) error {
		p.Step = s.of(c)
		return k.Launch(d.stream, s.tokens, s.seqs, s.decodes+s.trees > 0, p, at(a.Scratch))
	}, d.floats(a.Weights, &p.Decay, &p.Bias, &p.Skip)
}

func bindSelectiveScan(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	k, err := recurrent.NewScan(d.loader, n.In[0].Type)
	if err != nil {
		return nil, err
	}
	c := n.In[4].Cache
	p := &recurrent.ScanParams{
		X: at(a.In[0]), DT: at(a.In[1]), In: at(a.In[2]), Read: at(a.In[3]), Y: at(a.Out[0]), States: at(a.In[4]),
		Inner: int32(n.In[0].Axis.Len()), Size: int32(n.In[2].Axis.Len()),
	}
	return func(s *step) error {
		p.Step = s.of(c)
		return k.Launch(d.stream, s.tokens, s.seqs, p)
	}, d.floats(a.Weights, &p.Decay, &p.Skip)
}
