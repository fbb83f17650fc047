package ridge

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// sketches are the graphs of settings that were tried while a model is loaded, whether for what fits or for what takes least time. Settings that differ in the context alone, of which a search tries a dozen,
// have the same.
type sketches struct {
	whole  map[sketched]*sketch
	splits map[sketched]*split
}

// sketched is what the graphs depend on of the options that are tried.
type sketched struct {
	backend, cache, quantization, file string
	layout                             Layout
	last                               int // layers on the GPU beside the CPU
	experts                            CPUExperts
	slots                              int
}

// sketch is a model's graphs.
type sketch struct {
	plain  *graph.Graph   // before the passes
	whole  *graph.Graph   // of one device
	graphs []*graph.Graph // of those of the layout
	layout pass.Layout
}

func (o Options) sketched(file string) sketched {
	return sketched{backend: o.Backend, cache: o.Cache, quantization: o.Quantization, file: file, layout: o.Layout, experts: o.CPUExperts, slots: o.expertSlots}
}

// sketch is a model as the options have it on a device, or several of its kind; of a file of another type of ridge convert, if one is named.
func (m *Model) sketch(o Options, file string, dev backend.Device) (*sketch, error) {
	key := o.sketched(file)
	if s := m.sketches.whole[key]; s != nil {
		return s, nil
	}
	g, passes, err := m.graphOn(dev, o)
	if err != nil {
		return nil, err
	}
	if err := m.retype(g, file); err != nil {
		return nil, err
	}
	s := &sketch{plain: g, layout: passes.Layout}
	if s.whole, err = pass.Run(g, pass.All, passes); err != nil {
		return nil, err
	}
	s.graphs = []*graph.Graph{s.whole}
	if layout := o.Layout.passes(); layout.Splits() {
		second := o.device() // which is only seen to be there
		second.Number = 1
		other, err := m.runtime.devices.Open(second)
		if err != nil {
			return nil, err
		}
		defer other.Close()
		if s.layout, err = compile.FitTo(dev, layout, g); err != nil {
			return nil, err
		}
		passes.Layout = s.layout
		if s.graphs, err = parts(g, passes); err != nil {
			return nil, err
		}
	}
	if m.sketches.whole == nil {
		m.sketches.whole = map[sketched]*sketch{}
	}
	m.sketches.whole[key] = s
	return s, nil
}

// onSplit is a model with so many last layers on a GPU, without the experts that are to be on the CPU; all of it: there is no other part.
func (m *Model) onSplit(o Options, gpu backend.Device, last int) (*split, error) {
	key := o.sketched("")
	key.last = last
	if s := m.sketches.splits[key]; s != nil {
		return s, nil
	}
	s, err := m.divided(o, gpu, last)
	if err != nil {
		return nil, err
	}
	if m.sketches.splits == nil {
		m.sketches.splits = map[sketched]*split{}
	}
	m.sketches.splits[key] = s
	return s, nil
}
