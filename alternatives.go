package ridge

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/size"
)

// Alternative is a way to run a model that did not fit as it was asked for.
type Alternative struct {
	Flags   string  // what to change on the command line of run and serve: "--ctx 4096"
	Type    string  // the format of ridge convert that the model's file has to be written in first, such as Q4_K_M; "": the file as it is
	Options Options // to load the model with
	Weights int64   // bytes that the weights take then, on all devices together
	Cache   int64   // and the cache of one request of the whole context
}

func (a Alternative) String() string {
	var all []string
	if a.Type != "" {
		all = append(all, "ridge convert --type "+a.Type)
	}
	if a.Flags != "" {
		all = append(all, a.Flags)
	}
	return fmt.Sprintf("%s (weights %s, cache of a request %s)", strings.Join(all, " and "), size.Text(a.Weights), size.Text(a.Cache))
}

// convertible are the types of files that every device keeps packed, those that change a model least first.
var convertible = []string{"Q8_0", "Q6_K", "Q4_K_M", "Q4_0"}

// leastContext is the shortest context that is worth proposing where a longer one was asked for, in tokens.
const leastContext = 512

// propose adds to an error that says what has no room what would have. Each proposal has been through the sums that refused the model.
func (m *Model) propose(err error, o Options) error {
	var e *Error
	if !errors.As(err, &e) || e.Kind != ErrMemory {
		return err
	}
	if e.Alternatives = m.alternatives(o); len(e.Alternatives) == 0 {
		return err
	}
	var all []string
	for _, a := range e.Alternatives {
		all = append(all, a.String())
	}
	e.Reason += "; what would fit: " + strings.Join(all, "; ")
	return err
}

// alternatives are changes of one setting with which a model has room, or where no such change is enough, of several.
func (m *Model) alternatives(o Options) (all []Alternative) {
	add := func(a Alternative, ok bool) {
		if ok {
			all = append(all, a)
		}
	}
	add(m.smallerWeights(Alternative{Options: o}))
	small := m.smallerCache(Alternative{Options: o})
	for _, a := range small {
		if a, ok := m.has(a); ok {
			all = append(all, a)
			break
		}
	}
	add(m.shorter(Alternative{Options: o}))
	if o.KV != (Budget{}) {
		whole := Alternative{Options: o, Flags: "no --kv-memory and no --gpu-memory-utilization"}
		whole.Options.KV = Budget{}
		add(m.has(whole))
	}
	for _, other := range m.elsewhere(o) {
		add(m.has(other))
	}
	add(m.fewerOnGPU(o))
	add(m.expertsOnCPU(o))
	if len(all) > 0 {
		return all
	}
	for _, a := range small { // weights and cache together
		add(m.smallerWeights(a))
		if len(all) == 0 {
			add(m.shorter(a))
		}
	}
	for _, a := range append([]Alternative{{Options: o}}, small...) {
		for _, t := range convertible {
			if a.Type = t; len(all) == 0 {
				add(m.shorter(a))
			}
		}
	}
	return all
}

// smallerWeights quantises on load, or else has the file converted, to as many bits as have room.
func (m *Model) smallerWeights(a Alternative) (Alternative, bool) {
	if a.Options.Quantization == "" {
		for _, name := range []string{"int8", "int4"} {
			b := a.with("--quantization " + name)
			b.Options.Quantization = name
			if b, ok := m.has(b); ok {
				return b, true
			}
		}
	}
	a.Options.Quantization = ""
	for _, t := range convertible {
		b := a
		b.Type = t
		if b, ok := m.has(b); ok {
			return b, true
		}
	}
	return a, false
}

// smallerCache are alternatives whose cache takes fewer bits than the one asked for, the most first; none has been tried.
func (m *Model) smallerCache(a Alternative) (all []Alternative) {
	bits := map[string]int{"": 16, "f16": 16, "bf16": 16, "f32": 32, "int8": 8, "fp8": 8, "int4": 4}
	for _, name := range []string{"int8", "int4"} {
		if _, err := device.CacheType(a.Options.Backend, name); err == nil && bits[name] < bits[a.Options.Cache] {
			b := a.with("--kv-type " + name)
			b.Options.Cache = name
			all = append(all, b)
		}
	}
	return all
}

// shorter is the alternative with the longest context that has room.
func (m *Model) shorter(a Alternative) (Alternative, bool) {
	page := a.Options.pageTokens() * max(1, a.Options.Layout.passes().PageRanks())
	asked := a.Options.limits(m.dir.Model.Config.Context, false)
	most := (asked.SeqPages*asked.PageSize - 1) / page // pages of a context shorter than that
	try := func(tokens int) (Alternative, bool) {
		b := a.with(fmt.Sprintf("--ctx %d", tokens))
		b.Options.Context = tokens
		return m.has(b)
	}
	pages := sort.Search(most, func(i int) bool { _, ok := try((i + 1) * page); return !ok })
	tokens := pages * page
	if tokens >= 2048 {
		tokens -= tokens % 1024
	}
	if tokens < min(leastContext, most*page) || tokens == 0 {
		return a, false
	}
	return try(tokens)
}

// elsewhere are the same settings on other devices of this machine, and on two GPUs in place of one.
func (m *Model) elsewhere(o Options) (all []Alternative) {
	if o.Layout.passes().Splits() || o.GPULayers > 0 || o.CPUExperts != 0 {
		return nil
	}
	to := func(flags string, change func(*Options)) {
		a := Alternative{Options: o, Flags: flags}
		change(&a.Options)
		if a.Options.check() == nil {
			all = append(all, a)
		}
	}
	if !device.OnGPU(o.Backend) {
		to("--backend cuda", func(o *Options) { o.Backend = "cuda" })
		return all
	}
	to("--tp 2", func(o *Options) { o.Layout.Tensor = 2 })
	to("--backend cpu", func(o *Options) { o.Backend = "cpu" })
	return all
}

// with is an alternative with one flag more.
func (a Alternative) with(flag string) Alternative {
	a.Flags = strings.TrimSpace(a.Flags + " " + flag)
	return a
}

// has reports whether there is room for a model as an alternative has it, and what it takes.
func (m *Model) has(a Alternative) (Alternative, bool) {
	dev, err := m.device, error(nil)
	if a.Options.Backend != m.backend {
		how := a.Options.device()
		how.Note = nil
		if dev, err = m.runtime.devices.Open(how); err != nil {
			return a, false
		}
		defer dev.Close()
		if m.runtime.withhold(dev) != nil {
			return a, false
		}
	}
	err = m.measure(&a, dev)
	return a, err == nil
}

// measure has the sums of loading done for an alternative on a device, without loading anything.
func (m *Model) measure(a *Alternative, dev backend.Device) error {
	if a.Options.GPULayers > 0 || a.Options.CPUExperts != 0 {
		return m.measureSplit(a)
	}
	o := a.Options
	o.Note = nil
	s, err := m.sketch(o, a.Type, dev)
	if err != nil {
		return err
	}
	if err := o.checkContext(m.dir.Model.Config, s.plain); err != nil {
		return err
	}
	places := placesOf(o, s.graphs)
	lim, err := m.sized(o, dev, places, s.whole, s.layout, m.runtime.reservedOn(dev.Info().Name))
	if err != nil {
		return err
	}
	all := slices.Concat(places...)
	p := backend.NewPaging(s.whole, &lim)
	p.Spread(all)
	a.Weights, a.Cache = weightBytes(all), p.Bytes(lim.SeqPages, 1)
	return nil
}

// retype gives the matrices of a graph, which is before the passes, the formats that a type of ridge convert would give them in a file.
func (m *Model) retype(g *graph.Graph, name string) error {
	if name == "" {
		return nil
	}
	t, err := convert.ParseType(name)
	if err != nil {
		return err
	}
	formats, err := convert.Formats(m.dir.Model, t)
	if err != nil {
		return err
	}
	var before, after int64
	for _, w := range g.Weights {
		before += w.Bytes()
		if f, ok := formats[w.Tensor]; ok {
			w.Format = f
		}
		after += w.Bytes()
	}
	if after >= before {
		return fmt.Errorf("ridge: as %s the weights would take no less", name)
	}
	return nil
}
