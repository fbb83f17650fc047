package ridge

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm/world"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/ranks"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/quantize/imatrix"
	"github.com/ridge-llm/ridge/pass"
)

// Layout says over how many devices a model is spread, Tensor × Pipeline × Sequence × Data in all: see docs/parallel.md. The zero value is one device.
type Layout struct {
	Tensor   int // devices that share every layer; 0: 1
	Pipeline int // stages, each with a range of the layers; 0: 1
	// Expert is devices of Tensor, or all of Tensor × Sequence or Tensor × Data (AllDevices), among which the experts of each layer are divided; 0: 1, experts are cut as all else, or with Data
	// all.
	Expert int
	// Data is replicas of all but the experts, each with requests of its own, whose rows meet at the experts (data-parallel attention); 0: 1. All compute steps together.
	Data int
	// Sequence is devices that divide the rows of steps, and the cache, each with all of the layers' weights; 0: 1. SequenceMethod is how they attend: ulysses, ring or "",
	// whichever divides the cache further and, of those alike, sends fewer bytes for a prompt.
	Sequence       int
	SequenceMethod string
	// ExpertLoad has experts that devices with Data, or Sequence, divide be placed by how many rows came to them, as a file of importances (llama.cpp's imatrix, ridge quantize --imatrix-out) counts them; "":
	// in order. RedundantExperts is how many each device has beside an equal share: hot ones are on several devices then.
	ExpertLoad       string
	RedundantExperts int
}

// AllDevices is Layout.Expert where experts are divided among all devices that compute a layer.
const AllDevices = -1

// Experts is among how many devices the experts of each layer are divided.
func (l Layout) Experts() int {
	if l.Expert == AllDevices || l.Data > 1 && l.Expert <= 1 {
		return max(l.Tensor, 1) * max(l.Data, l.Sequence, 1)
	}
	return l.Expert
}

// MaxDevices is over how many devices a model can be spread.
const MaxDevices = 64

// Devices is how many devices the layout takes.
func (l Layout) Devices() int { return l.passes().Devices() }

// passes is the layout as the passes over graphs take it. With Data experts are divided among all devices.
func (l Layout) passes() pass.Layout {
	return pass.Layout{Tensor: max(l.Tensor, 1), Pipeline: max(l.Pipeline, 1), Data: max(l.Data, 1), Expert: l.Experts(), Sequence: l.Sequence, Method: l.SequenceMethod}
}

// Check refuses layouts that no model can have here.
func (l Layout) Check() error {
	for _, n := range []struct {
		flag string
		n    int
	}{{"tp", l.Tensor}, {"pp", l.Pipeline}, {"ep", l.Expert}, {"sp", l.Sequence}, {"dp", l.Data}} {
		if n.n < 0 && !(n.flag == "ep" && n.n == AllDevices) || n.n > MaxDevices {
			return fmt.Errorf("ridge: --%s %d; 1 to %d is possible (Layout)", n.flag, n.n, MaxDevices)
		}
	}
	all := l.passes()
	if l.Data > 1 && l.Sequence > 1 {
		return fmt.Errorf("ridge: --dp %d and --sp %d: devices have sequences of their own or divide the rows of all; leave one out (Layout.Data, Layout.Sequence)", l.Data, l.Sequence)
	}
	if l.Data > 1 && all.Expert != all.Tensor*l.Data {
		return fmt.Errorf("ridge: --dp %d and --ep %d: the experts are divided among all of --tp × --dp, %d devices (Layout.Expert, Layout.Data)", l.Data, l.Expert, all.Tensor*l.Data)
	}
	if rows := max(l.Sequence, l.Data, 1); l.Expert > all.Tensor && (rows == 1 || l.Expert != all.Tensor*rows) {
		return fmt.Errorf("ridge: --ep %d is more than --tp %d: experts can be divided among devices of --tp, or among all of --tp × --sp or --tp × --dp (Layout.Expert, Layout.Tensor, Layout.Sequence, Layout.Data)", l.Expert, all.Tensor)
	}
	if m := l.SequenceMethod; m != "" && m != pass.Ulysses && m != pass.Ring {
		return fmt.Errorf("ridge: --sp-method %q; %s and %s are possible (Layout.SequenceMethod)", m, pass.Ulysses, pass.Ring)
	} else if m != "" && l.Sequence < 2 {
		return fmt.Errorf("ridge: --sp-method %s is for --sp 2 or more (Layout.SequenceMethod, Layout.Sequence)", m)
	}
	if by := l.ExpertLoad != "" || l.RedundantExperts != 0; l.RedundantExperts < 0 || by && all.Expert <= all.Tensor {
		return fmt.Errorf("ridge: --expert-load %q and --redundant-experts %d place experts that all of --tp × --dp or --tp × --sp devices divide, of which there are more than --tp, and 0 or more are redundant (Layout.ExpertLoad, Layout.RedundantExperts)", l.ExpertLoad, l.RedundantExperts)
	}
	if n := all.Devices(); n > MaxDevices {
		return fmt.Errorf("ridge: the layout %s has %d devices; %d at most are possible", all, n, MaxDevices)
	}
	return nil
}

// loads is what experts are placed by.
func (l Layout) loads() (pass.ExpertLoads, error) {
	loads := pass.ExpertLoads{Extra: l.RedundantExperts}
	if l.ExpertLoad == "" {
		return loads, nil
	}
	m, err := imatrix.Read(l.ExpertLoad)
	if err != nil {
		return loads, fmt.Errorf("ridge: Layout.ExpertLoad (--expert-load): %w", err)
	}
	loads.Counts = m.ExpertCounts()
	return loads, nil
}

// check refuses settings that do not go with several devices.
func (l Layout) check(o Options) error {
	placed := l
	if o.ExpertCache != 0 { // which begins with the experts to which most rows came
		placed.ExpertLoad = ""
	}
	if err := placed.Check(); err != nil {
		return err
	}
	all := l.passes()
	switch {
	case all.Devices() == 1:
		return nil
	case all.Data > 1 && o.keepsPages():
		return fmt.Errorf("ridge: the layout %s: what devices that have requests of their own keep beyond their caches would have to be found by all of them; leave KVOffload (--kv-host-memory, --kv-disk, --kv-shared) and KVTransfer (--role) out", all)
	case len(o.EarlyExit.Layers) > 0:
		return fmt.Errorf("ridge: EarlyExit (--early-exit) and the layout %s: parts of the model that tokens leave are of one device; leave one out", all)
	}
	for _, s := range append([]Speculation{o.Speculation}, o.Speculation.Beside...) {
		switch method, _ := draft.ParseMethod(s.Method); method {
		case draft.LayerSkip, draft.Medusa, draft.MTP, draft.Eagle, draft.Eagle3:
			return fmt.Errorf("ridge: Speculation by %s and the layout %s: it goes on from hidden states that lie on one device; ngram, suffix, lookahead and draft models go with several", method, all)
		}
	}
	return nil
}

// loaded is a model as steps run on it.
type loaded struct {
	compile.Runner
	whole    *graph.Graph     // as one device would run it, for pricing
	stages   []*graph.Graph   // of the first device of each stage, where devices have arithmetic and memory of their own; nil: one device's are whole's
	replicas int              // of all but the experts, in stages
	one      *compile.Program // nil: several devices have parts of it
	prefault func(most int64)
	lost     *world.World // of several processes
}

// parts are the graphs of a layout's devices.
func parts(g *graph.Graph, o pass.Options) (all []*graph.Graph, err error) {
	for i := range o.Layout.Devices() {
		o.Rank = o.Layout.Rank(i)
		part, err := pass.Run(g, pass.All, o)
		if err != nil {
			return nil, fmt.Errorf("ridge: %w", err)
		}
		all = append(all, part)
	}
	return all, nil
}

// place compiles the graph, with as many pages of the cache as the options and the other models of the Runtime allow.
func (m *Model) place(o Options, g *graph.Graph, passes pass.Options) (*loaded, error) {
	if o.GPULayers > 0 {
		return m.placeSplit(o, g, passes)
	}
	whole, err := pass.Run(g, pass.All, passes)
	if err != nil {
		return nil, err
	}
	prog := &loaded{whole: whole}
	graphs := []*graph.Graph{whole}
	if layout := o.Layout.passes(); layout.Splits() {
		if layout, err = compile.FitTo(m.device, layout, g); err != nil {
			return nil, fmt.Errorf("ridge: %w", err)
		}
		passes.Layout = layout
		if graphs, err = parts(g, passes); err != nil {
			return nil, err
		}
	}
	if l := passes.Layout; l.Splits() && (device.OnGPU(o.Backend) || o.Ranks.Rendezvous != "") { // devices of a CPU in one process share it
		prog.replicas = max(l.Data, 1)
		for stage := range l.Pipeline {
			prog.stages = append(prog.stages, graphs[l.Number(pass.Rank{Stage: stage})])
		}
	}
	here := placesOf(o, graphs)
	var w *world.World
	if o.Ranks.Rendezvous != "" {
		if w, err = m.meet(o, passes); err != nil {
			return nil, err
		}
		here = placesOf(o, onHost(graphs, passes.Layout, w))
	} else if err := m.openOthers(o, passes.Layout); err != nil {
		return nil, err
	}
	var refused error
	m.reserved, err = m.runtime.place(m.device.Info().Name, func(reserved int64) (int64, error) {
		lim, err := m.sized(o, m.device, here, whole, passes.Layout, reserved)
		if err != nil {
			if w != nil {
				w.Fail(err) // the other ranks wait
				return 0, errors.Join(err, w.Close())
			}
			refused = err
			return 0, err
		}
		m.context, m.limits = lim.SeqPages*lim.PageSize, lim
		if w != nil {
			err = m.startRanks(prog, g, passes, w)
		} else {
			err = m.compileFor(prog, o, g, passes, lim)
		}
		if err != nil {
			return 0, err
		}
		m.memory = prog.Memory()
		return (m.memory.Weights + m.memory.Caches + m.memory.Arena) / int64(len(here)), nil
	})
	if refused != nil { // what would fit is looked for while others may be loaded
		err = m.propose(refused, o)
	}
	return prog, err
}

// placesOf is the graphs of this host by the memory that they are in: one of the CPU's, or each GPU's.
func placesOf(o Options, graphs []*graph.Graph) (places [][]*graph.Graph) {
	if !device.OnGPU(o.Backend) {
		return [][]*graph.Graph{graphs}
	}
	at := map[string]int{}
	for i, g := range graphs {
		name := device.Name(o.Backend, i)
		if _, ok := at[name]; !ok {
			at[name] = len(places)
			places = append(places, nil)
		}
		places[at[name]] = append(places[at[name]], g)
	}
	return places
}

// sized is the limits of a model's steps on a device, with as many pages of the cache as there is room for in each of the memories that its graphs are in. Only that of the
// first is asked for how much is free: GPUs of a layout are taken to be alike.
func (m *Model) sized(o Options, dev backend.Device, places [][]*graph.Graph, whole *graph.Graph, l pass.Layout, reserved int64) (backend.Limits, error) {
	lim := o.limits(m.dir.Model.Config.Context, m.dir.Model.Config.Encoder || m.FillsIn())
	m.blockLimits(&lim)
	lim.Divide(l.PageRanks())
	var least *backend.Limits
	for _, graphs := range places {
		each := lim
		if err := o.setPages(&each, dev, graphs, whole, reserved); err != nil {
			return lim, err
		}
		if least == nil || each.Pages < least.Pages {
			least = &each
		}
	}
	if l.OwnSequences() { // they are of each
		least.Times(l.Data)
		return *least, nil
	}
	return *least, o.setHostPages(least, dev, slices.Concat(places...), whole)
}

// openOthers opens the devices of a layout beside the first.
func (m *Model) openOthers(o Options, l pass.Layout) error {
	if !l.Splits() {
		return nil
	}
	for len(m.others) < l.Devices()-1 {
		how := o.device()
		how.Number = len(m.others) + 1
		d, err := m.runtime.devices.Open(how)
		if err != nil {
			return err
		}
		m.others = append(m.others, d)
	}
	return nil
}

// onHost is which of a layout's graphs are in the memory of rank 0's host.
func onHost(graphs []*graph.Graph, l pass.Layout, w *world.World) (here []*graph.Graph) {
	for rank := range w.Size() {
		if at := ranks.Place(l, rank); w.Near(rank) {
			here = append(here, graphs[l.Number(at)])
		}
	}
	return here
}

// compileFor compiles a graph, which is the one before the passes, for the model's device or as many as its layout has.
func (m *Model) compileFor(prog *loaded, o Options, g *graph.Graph, passes pass.Options, lim backend.Limits) (err error) {
	if !passes.Layout.Splits() {
		if prog.one, err = compile.Compile(prog.whole, m.device, m.dir, lim); err == nil {
			prog.Runner, prog.prefault = prog.one, prog.one.PrefaultAhead
		}
		return err
	}
	group, err := compile.CompileGroup(g, passes, append([]backend.Device{m.device}, m.others...), m.dir, lim)
	if err == nil {
		prog.Runner, prog.prefault = group, group.PrefaultAhead
	}
	return err
}

// closeDevices gives back the model's devices.
func (m *Model) closeDevices() error {
	if m.device == nil {
		return nil
	}
	err := m.device.Close()
	for _, d := range m.others {
		err = errors.Join(err, d.Close())
	}
	m.device, m.others = nil, nil
	return err
}
