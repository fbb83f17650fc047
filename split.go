package ridge

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
)

// split is a model whose first layers are on the CPU and whose last ones are on a GPU.
type split struct {
	last    int // layers on the GPU
	experts int // of how many first layers the experts are on the CPU though the layers may be on the GPU
	layout  pass.Layout
	members []compile.Member // the CPU and the GPU
	parts   []*graph.Graph   // of them, after the passes
	layers  int
	caching func() compile.ExpertCaching // of a program
}

// cpuName is the name of the device of a split model's first layers.
const cpuName = "cpu"

// divide settles how many layers are on the GPU, which is the model's device, of a graph before the passes, and opens the CPU for the others. The options that it
// gives have a number of them in GPULayers, or where one device has all of the model 0 and that device's Backend.
func (m *Model) divide(o Options, g *graph.Graph) (Options, error) {
	if o.CPUExperts != 0 && !hasExperts(g) {
		return o, fmt.Errorf("ridge: CPUExperts (--cpu-moe, --n-cpu-moe) is set, and %s has no experts; leave it out", m.name)
	}
	if o.GPULayers != AutoGPULayers {
		o.GPULayers = GPULayers(o.layersOn(g))
	}
	if int(o.GPULayers) == g.Layers() && pass.ApartFrom(g, g.Layers(), o.CPUExperts.Of(g.Layers())) == 0 {
		if o.CPUExperts != 0 && o.Note != nil {
			o.Note(fmt.Sprintf("--n-cpu-moe: the first %d layers of %s have no experts, and all is on %s", int(o.CPUExperts), m.name, m.device.Info().Name))
		}
		o.GPULayers, o.CPUExperts = 0, 0
		return o, nil
	}
	if err := m.openCPU(o); err != nil {
		return o, err
	}
	if o.GPULayers == AutoGPULayers {
		var err error
		if o, err = m.cheapest(o, g); err != nil {
			return o, err
		}
	}
	m.readsFiles = m.readsFiles || o.GPULayers > 0
	slots, err := m.slotsIn(o, g, int(o.GPULayers))
	if o.expertSlots = slots; slots > 0 && o.Note != nil {
		o.Note(fmt.Sprintf("--expert-cache: %d experts of each layer whose experts are on the CPU are on %s too, those that are used most", slots, m.device.Info().Name))
	}
	return o, err
}

// layersOn is how many layers of a graph are on the GPU, where a number of them is asked for.
func (o Options) layersOn(g *graph.Graph) int {
	if o.GPULayers == 0 {
		return g.Layers()
	}
	return min(int(o.GPULayers), g.Layers())
}

// openCPU opens the device of a split model's first layers.
func (m *Model) openCPU(o Options) error {
	how := o.device()
	how.Backend, how.Transport = cpuName, ""
	cpu, err := m.runtime.devices.Open(how)
	if err != nil {
		return err
	}
	m.others = append(m.others, cpu)
	return m.runtime.withhold(cpu)
}

// cpu is the device of a split model's first layers.
func (m *Model) cpu() backend.Device { return m.others[0] }

// hasExperts reports whether a graph has blocks of experts.
func hasExperts(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { _, ok := graph.Experts(n); return ok })
}

// cheapest chooses what is on the GPU: as many last layers as have room there; or, of a model with experts, all layers without the experts of as few first ones as there is no room for, or
// as many as have room without any; or nothing. Of these a token takes least by what is chosen. Of neighbouring numbers of layers one or the other end takes least, since a layer takes about as long as any other.
func (m *Model) cheapest(o Options, g *graph.Graph) (Options, error) {
	var refused error
	room := func(o Options, last int) bool {
		_, err := m.gpuRoom(o, m.device, last, contexts(o))
		if err != nil {
			refused = err
		}
		return err == nil
	}
	layers, gpu := g.Layers(), m.device.Info().Name
	most := sort.Search(layers, func(i int) bool { return !room(o, i+1) })
	whole := o
	whole.GPULayers = GPULayers(most)
	choices := []Options{whole}
	if most < layers && o.CPUExperts == 0 && hasExperts(g) {
		apart := o
		with := func(n int) Options { apart.CPUExperts = CPUExperts(n); return apart }
		if n := 1 + sort.Search(layers-1, func(i int) bool { return room(with(1+i), layers) }); n < layers || room(with(n), layers) {
			apart = with(n)
			apart.GPULayers = GPULayers(layers)
		} else {
			apart = with(layers)
			apart.GPULayers = GPULayers(sort.Search(layers, func(i int) bool { return !room(apart, i+1) }))
		}
		if apart.GPULayers > 0 {
			choices = append(choices, apart)
		}
	}
	alone, err := m.stepSeconds(o, 0)
	if err != nil {
		return o, err
	}
	best, least := o, math.Inf(1)
	for _, c := range choices {
		seconds, err := m.stepSeconds(c, int(c.GPULayers))
		if err != nil {
			return o, err
		}
		if seconds < least {
			best, least = c, seconds
		}
	}
	note := func(format string, values ...any) {
		if o.Note != nil {
			o.Note(fmt.Sprintf("--gpu-layers auto: "+format, values...))
		}
	}
	here := placedText(int(best.GPULayers), layers, best.CPUExperts.Of(layers))
	switch {
	case best.GPULayers == 0:
		note("%s has room for none of the %d layers, which are on the CPU: %v", gpu, layers, refused)
	case least >= alone:
		note("%s has room for %s, and a token would take %.3g ms then; all are on the CPU, where it takes %.3g ms", gpu, here, 1e3*least, 1e3*alone)
		best.GPULayers = 0
	case int(best.GPULayers) == layers && best.CPUExperts == 0:
		note("all %d layers are on %s", layers, gpu)
		best.GPULayers = 0
		return best, nil
	default:
		note("%s are on %s; a token is predicted to take %.3g ms, and %.3g ms on the CPU alone", here, gpu, 1e3*least, 1e3*alone)
	}
	if best.GPULayers == 0 {
		best.Backend, best.CPUExperts = cpuName, 0
	}
	return best, nil
}

// placedText says which part of a model is on the GPU.
func placedText(last, layers, experts int) string {
	s := fmt.Sprintf("the last %d of %d layers", last, layers)
	if last == layers && experts > 0 {
		s = fmt.Sprintf("all %d layers", layers)
	}
	switch {
	case experts == layers:
		s += " without their experts"
	case experts > layers-last:
		s += fmt.Sprintf(" without the experts of the first %d", experts)
	}
	return s
}

// contexts is for how many requests of the whole context layers are chosen: one, and one more for every four that run at once.
func contexts(o Options) int { return max(1, o.limits(defaultContext, false).Seqs/4) }

// divided makes the parts of a model with so many last layers on a GPU, without the experts that are to be on the CPU; all of it: there is no other part.
func (m *Model) divided(o Options, gpu backend.Device, last int) (*split, error) {
	s := &split{last: last}
	for i, dev := range []backend.Device{m.cpu(), gpu} {
		how := o
		if i == 0 {
			how.Backend = cpuName
		}
		g, passes, err := m.graphOn(dev, how)
		if err != nil {
			return nil, err
		}
		s.layers = g.Layers()
		s.members = append(s.members, compile.Member{Device: dev, Graph: g, Passes: passes})
	}
	if s.experts = pass.ApartFrom(s.members[1].Graph, last, o.CPUExperts.Of(s.layers)); last == 0 || last == s.layers && s.experts == 0 {
		s.experts = 0
		i := min(last, 1)
		s.layout, s.members = pass.OneDevice, s.members[i:i+1]
	} else {
		s.layout = pass.WithoutExperts(s.layers, last, s.experts)
		s.layout.ExpertSlots = o.expertSlots
		if err := s.layout.Check(s.members[1].Graph); err != nil {
			return nil, fmt.Errorf("ridge: %w", err)
		}
	}
	for i, x := range s.members {
		x.Passes.Layout, x.Passes.Rank = s.layout, s.layout.Rank(i)
		part, err := pass.Run(x.Graph, pass.All, x.Passes)
		if err != nil {
			return nil, fmt.Errorf("ridge: %w", err)
		}
		s.parts = append(s.parts, part)
	}
	return s, nil
}

// prices are those of the parts.
func (s *split) prices() (prices, error) {
	var all prices
	for i, x := range s.members {
		p, err := price.New(s.parts[i], profileOf(x.Device).ThroughHost())
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// stepSeconds is how long a token takes with so many last layers on the GPU, s, in the middle of the longest sequence.
func (m *Model) stepSeconds(o Options, last int) (float64, error) {
	s, err := m.onSplit(o, m.device, last)
	if err != nil {
		return 0, err
	}
	p, err := s.prices()
	if err != nil {
		return 0, fmt.Errorf("ridge: --gpu-layers auto: %w", err)
	}
	lim := o.limits(m.dir.Model.Config.Context, false)
	return p.Predict(&graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: lim.SeqPages * lim.PageSize / 2}}}), nil
}

// kernelSlack is what kernels may take of a GPU's memory beside activations where layers are chosen by what has room, bytes.
const kernelSlack = 256 << 20

// gpuRoom reports why the last layers have no room on a GPU with their cache, of so many requests of the whole context. Of what weights leave, part is for the cache then; the rest
// is for activations, as ridge plan counts them.
func (m *Model) gpuRoom(o Options, gpu backend.Device, last, requests int) (part float64, err error) {
	s, err := m.onSplit(o, gpu, last)
	if err != nil {
		return 0, err
	}
	info, ok := gpu.(backend.MemoryInfo)
	if !ok {
		return 0, nil
	}
	free, total, err := unreserved(info, m.runtime.reservedOn(gpu.Info().Name))
	if err != nil {
		return 0, err
	}
	if o.KV.Total > 0 {
		free = min(free, int64(o.KV.Total*float64(total))-(total-free))
	}
	lim := o.limits(m.dir.Model.Config.Context, m.dir.Model.Config.Encoder || m.FillsIn())
	m.blockLimits(&lim)
	mine := s.parts[len(s.parts)-1:]
	p := backend.NewPaging(mine[0], &lim)
	p.Spread(mine)
	cache := p.Bytes(lim.SeqPages*requests, 1)
	if o.KV.Bytes > 0 {
		cache = max(o.KV.Bytes, p.Bytes(lim.SeqPages, 1))
	}
	use := capacity.MemoryOf(mine[0], lim.Tokens, lim.Logits)
	use.Weights += lookedUp(mine[0])
	rest := use.Activations + kernelSlack
	if o.KV.Total > 0 {
		rest = max(rest, slack)
	}
	left := free - use.Weights - use.Adapters
	if left < cache+rest {
		return 0, noMemory("%s take %s of weights, %s of cache and %s of activations and kernels, and of the %s of device %s %s are free", placedText(last, s.layers, s.experts),
			size.Text(use.Weights+use.Adapters), size.Text(cache), size.Text(rest), size.Text(total), gpu.Info().Name, size.Text(free))
	}
	return min(defaultPart, float64(left-rest)/float64(left)), nil
}

// lookedUp is what a GPU takes for packed tables that a step looks rows up in: it keeps their numbers in BF16 for that.
func lookedUp(g *graph.Graph) (n int64) {
	tables := g.HostTables()
	for _, x := range g.Nodes {
		if _, ok := x.Op.(graph.Embed); ok && x.Weights[0].Format.Block() > 1 && tables[x.Weights[0]] == 0 {
			n += int64(x.Weights[0].Out.Len()) * graph.BF16.RowBytes(x.Weights[0].In.Len())
		}
	}
	return n
}

// sizedSplit is sized for the two memories of a split model.
func (m *Model) sizedSplit(o Options, s *split) (backend.Limits, error) {
	lim := o.limits(m.dir.Model.Config.Context, m.dir.Model.Config.Encoder || m.FillsIn())
	m.blockLimits(&lim)
	whole := s.members[1].Graph
	part, err := m.gpuRoom(o, s.members[1].Device, s.last, 1)
	if err != nil {
		return lim, err
	}
	o.cachePart = cmp.Or(o.cachePart, part)
	page := func(parts []*graph.Graph) int64 {
		p := backend.NewPaging(whole, &lim)
		p.Spread(parts)
		return p.Bytes(1, 1)
	}
	var least *backend.Limits
	for i, x := range s.members {
		mine, how := s.parts[i:i+1], o
		if all := page(s.parts); all > 0 { // each memory's part of what is swapped
			how.Swap = int64(float64(o.Swap) * float64(page(mine)) / float64(all))
		}
		each := lim
		if err := how.setPages(&each, x.Device, mine, whole, m.runtime.reservedOn(x.Device.Info().Name)); err != nil {
			return lim, s.refused(i, err)
		}
		if len(mine[0].Caches) == 0 { // experts alone: no pages are here
			continue
		}
		if least == nil {
			least = &each
			continue
		}
		least.Pages, least.SwapPages = min(least.Pages, each.Pages), min(least.SwapPages, each.SwapPages)
		for k := range least.Groups {
			a, b := &least.Groups[k], each.Groups[k]
			a.Pages, a.SwapPages = min(a.Pages, b.Pages), min(a.SwapPages, b.SwapPages)
		}
	}
	return *least, o.setHostPages(least, s.members[1].Device, s.parts, whole)
}

// refused says of which part of a model an error is.
func (s *split) refused(i int, err error) error {
	part := fmt.Sprintf("the first %d of %d layers, on the CPU", s.layers-s.last, s.layers)
	switch {
	case i == 1:
		part = fmt.Sprintf("%s, on %s (--gpu-layers %d)", placedText(s.last, s.layers, s.experts), s.members[1].Device.Info().Name, s.last)
	case s.experts > 0:
		part += fmt.Sprintf(", and the experts of the first %d", s.experts)
	}
	var e *Error
	if errors.As(err, &e) {
		e.Reason = part + ": " + e.Reason
	}
	return err
}

// placeSplit is place for a model whose first layers are on the CPU.
func (m *Model) placeSplit(o Options, g *graph.Graph, passes pass.Options) (*loaded, error) {
	s, err := m.onSplit(o, m.device, int(o.GPULayers))
	if err != nil {
		return nil, err
	}
	m.split = s
	prog := &loaded{}
	if prog.whole, err = pass.Run(g, pass.All, passes); err != nil {
		return nil, err
	}
	var refused error
	m.reserved, err = m.runtime.place(m.device.Info().Name, func(int64) (int64, error) {
		lim, err := m.sizedSplit(o, s)
		if err != nil {
			refused = err
			return 0, err
		}
		m.context, m.limits = lim.SeqPages*lim.PageSize, lim
		group, err := compile.CompileMembers(s.layout, s.members, m.dir, lim)
		if err != nil {
			return 0, err
		}
		prog.Runner, prog.prefault, s.caching = group, group.PrefaultAhead, group.ExpertCaching
		m.memory = group.Memory()
		var bytes []int64
		for _, use := range group.Memories() {
			bytes = append(bytes, use.Weights+use.Caches+use.Arena)
		}
		m.reservedCPU = bytes[0]
		m.runtime.giveBack(cpuName, -bytes[0])
		return bytes[1], nil
	})
	if refused != nil {
		err = m.propose(refused, o)
	}
	return prog, err
}

// measureSplit is measure for an alternative whose first layers are on the CPU. m.device is the GPU.
func (m *Model) measureSplit(a *Alternative) error {
	g, _, err := m.graphOn(m.device, a.Options)
	if err != nil {
		return err
	}
	s, err := m.onSplit(a.Options, m.device, a.Options.layersOn(g))
	if err != nil {
		return err
	}
	if a.Type != "" {
		return errors.New("ridge: files of other types are proposed for one device")
	}
	lim, err := m.sizedSplit(a.Options, s)
	if err != nil {
		return err
	}
	p := backend.NewPaging(s.members[1].Graph, &lim)
	p.Spread(s.parts)
	a.Weights, a.Cache = weightBytes(s.parts), p.Bytes(lim.SeqPages, 1)
	return nil
}

// besideCPU reports whether a part of the model may be on the CPU, beside the GPU that was asked for, and opens the CPU for it if that has not been done.
func (m *Model) besideCPU(o Options) bool {
	switch {
	case len(m.others) > 0 && (o.GPULayers != 0 || o.CPUExperts != 0):
		return true
	case !device.OnGPU(o.Backend) || o.Layout.passes().Splits() || o.Ranks.Rendezvous != "":
		return false
	}
	return len(m.others) > 0 || m.openCPU(o) == nil
}

// fewerOnGPU is the alternative with as many last layers on the GPU as have room there, fewer than were asked for.
func (m *Model) fewerOnGPU(o Options) (a Alternative, ok bool) {
	if !m.besideCPU(o) {
		return a, false
	}
	s, err := m.onSplit(o, m.device, 0)
	if err != nil {
		return a, false
	}
	most := s.layers - 1
	if o.GPULayers > 0 {
		most = min(most, int(o.GPULayers)-1)
	}
	try := func(n int) (Alternative, bool) {
		b := Alternative{Options: o, Flags: fmt.Sprintf("--gpu-layers %d", n)}
		b.Options.GPULayers = GPULayers(n)
		if b.Options.check() != nil {
			return b, false
		}
		return m.has(b)
	}
	n := sort.Search(most, func(i int) bool { _, ok := try(i + 1); return !ok })
	if n == 0 {
		return a, false
	}
	return try(n)
}

// expertsOnCPU is the alternative with the experts of as few first layers on the CPU as leave room for the rest on the GPU, more than were asked for.
func (m *Model) expertsOnCPU(o Options) (a Alternative, ok bool) {
	if !m.besideCPU(o) {
		return a, false
	}
	s, err := m.onSplit(o, m.device, 0)
	if err != nil || !hasExperts(s.members[0].Graph) {
		return a, false
	}
	first := o.CPUExperts.Of(s.layers) + 1
	try := func(n int) (Alternative, bool) {
		b := Alternative{Options: o, Flags: fmt.Sprintf("--n-cpu-moe %d", n)}
		if b.Options.CPUExperts = CPUExperts(n); n == s.layers {
			b.Flags, b.Options.CPUExperts = "--cpu-moe", AllCPUExperts
		}
		if b.Options.check() != nil {
			return b, false
		}
		return m.has(b)
	}
	n := first + sort.Search(s.layers-first+1, func(i int) bool { _, ok := try(first + i); return ok })
	if n > s.layers {
		return a, false
	}
	return try(n)
}

// facts are what the numbers in the cache of a split model depend on beside those of its device.
func (s *split) facts() string {
	if s == nil {
		return ""
	}
	info := s.members[0].Device.Info()
	return fmt.Sprint(s.layout, info.Detail, info.Act, info.Q8, info.BF16)
}

// String names the devices of the parts.
func (s *split) String() string {
	var names []string
	for _, x := range slices.Backward(s.members) {
		info := x.Device.Info()
		names = append(names, fmt.Sprintf("%s (%s)", info.Name, info.Detail))
	}
	placed := placedText(s.last, s.layers, s.experts)
	if s.layout.ExpertSlots > 0 {
		placed += fmt.Sprintf(" but %d of each layer's", s.layout.ExpertSlots)
	}
	return fmt.Sprintf("%s on %s, the others on %s", placed, names[0], names[1])
}
