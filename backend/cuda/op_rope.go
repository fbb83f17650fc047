package cuda

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/rope"
	"github.com/ridge-llm/ridge/graph"
)

// bindAngles puts the frequencies on the device once; those that depend on the sequence's length go with every step.
func bindAngles(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	r := n.Op.(graph.Angles).Rotation
	k, err := rope.Angles(d.loader)
	if err != nil {
		return nil, err
	}
	perPosition, magnitude := r.Frequencies(0)
	axes, err := d.positionAxes(r)
	if err != nil {
		return nil, err
	}
	p := &rope.AnglesParams{Axes: axes, Y: at(a.Out[0]), Pairs: int32(r.Dim / 2), Magnitude: magnitude}
	if r.Varies() {
		i := d.steps.vary(r)
		p.PerSequence = 1
		return func(s *step) error {
			p.Step, p.Frequencies, p.AxisStride = s.Step, s.rates[i], s.axisStride()
			return rope.LaunchAngles(d.stream, k, s.tokens, p)
		}, nil
	}
	if p.Frequencies, err = d.table(perPosition, "rotation "+r.Name); err != nil {
		return nil, err
	}
	return func(s *step) error {
		p.Step, p.AxisStride = s.Step, s.axisStride()
		return rope.LaunchAngles(d.stream, k, s.tokens, p)
	}, nil
}

// positionAxes is [pairs] int32, the axis of each pair's positions; 0 where there is one axis.
func (d *Device) positionAxes(r *graph.Rotation) (driver.Ptr, error) {
	if r.Sections == [3]int{} {
		return 0, nil
	}
	axes := make([]float32, r.Dim/2)
	for i := range axes {
		axes[i] = math.Float32frombits(uint32(r.PositionAxis(i)))
	}
	return d.table(axes, "position axes of "+r.Name)
}

// axisStride is how far apart a row's positions on two axes are; 0 where they are alike.
func (s *step) axisStride() int32 {
	if s.axes == 1 {
		return 0
	}
	return int32(s.tokens)
}

// table puts numbers on the device as F32.
func (d *Device) table(numbers []float32, what string) (driver.Ptr, error) {
	raw := make([]byte, 4*len(numbers))
	for i, x := range numbers {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
	}
	p, err := d.alloc(int64(len(raw)), what)
	if err != nil {
		return 0, err
	}
	d.upload.bytes(p, raw)
	return p, nil
}

func bindRoPE(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	o, x := n.Op.(graph.RoPE), n.In[0]
	k, err := rope.Rope(d.loader, x.Type)
	if err != nil {
		return nil, err
	}
	p := &rope.Params{X: at(a.In[0]), Angles: at(a.In[1]), Y: at(a.Out[0]), Heads: int32(x.Axis.Count), Size: int32(x.Axis.Size), Dim: int32(o.Dim), From: int32(o.From)}
	if o.Pairing == graph.AdjacentPairs {
		p.Adjacent = 1
	}
	return func(s *step) error { return rope.LaunchRope(d.stream, k, s.rows(x.Rows), p) }, nil
}
