package capacity

import (
	"fmt"
	"sort"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// Side is a device of a split model, with the model's graph before the passes as it computes it.
type Side struct {
	Device *price.Profile
	Graph  *graph.Graph
	Passes pass.Options
}

// Split is a model whose first layers are on a CPU and whose last ones on a GPU: a step goes through the one and then the other.
type Split struct {
	Last     int    // layers on the GPU
	Experts  int    // of how many first layers of the model the experts are on the CPU though the layers may be on the GPU
	CPU, GPU *Setup // their memory; nil: it has no layer
	whole    *Setup // for the time of steps
}

// NewSplit prices a model with so many last layers on the GPU, 0 to all of them, without the experts of so many first layers of the model.
func NewSplit(cpu, gpu Side, last, experts int, lim Limits, until string) (*Split, error) {
	if err := lim.Check(); err != nil {
		return nil, err
	}
	layers := gpu.Graph.Layers()
	if last < 0 || last > layers {
		return nil, fmt.Errorf("capacity: %d layers on the GPU; the model has %d", last, layers)
	}
	if experts < 0 || experts > layers {
		return nil, fmt.Errorf("capacity: the experts of the first %d layers on the CPU; the model has %d", experts, layers)
	}
	experts = pass.ApartFrom(gpu.Graph, last, experts)
	s := &Split{Last: last, Experts: experts}
	one := func(x Side) (*Setup, error) {
		x.Passes.Rank = pass.Rank{}
		return New(x.Graph, x.Device, pass.OneDevice, lim, until, x.Passes)
	}
	var err error
	switch {
	case last == 0:
		s.Experts = 0
		s.CPU, err = one(cpu)
		s.whole = s.CPU
		return s, err
	case last == layers && experts == 0:
		s.GPU, err = one(gpu)
		s.whole = s.GPU
		return s, err
	}
	l := pass.WithoutExperts(layers, last, experts)
	if err := l.Check(gpu.Graph); err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	s.whole = &Setup{Device: gpu.Device, Layout: pass.OneDevice, Context: lim.Context, budget: lim.StepTokens, seqs: lim.Sequences}
	for i, x := range []Side{cpu, gpu} {
		x.Passes.Layout, x.Passes.Rank = l, l.Rank(i)
		part, err := pass.Run(x.Graph, until, x.Passes)
		if err != nil {
			return nil, err
		}
		priced, err := price.New(part, x.Device.ThroughHost())
		if err != nil {
			return nil, err
		}
		m := MemoryOf(part, lim.StepTokens, lim.Sequences)
		m.Workspace, m.Windowed = workspace(part, lim), windowed(part, lim.Context)
		mine := &Setup{Device: x.Device, Layout: pass.OneDevice, Usable: int64(float64(x.Device.Memory().Bytes) * lim.Utilization), Memory: m, Context: lim.Context, budget: lim.StepTokens, seqs: lim.Sequences,
			stages: []stage{{part, priced}}}
		s.whole.stages = append(s.whole.stages, mine.stages...)
		if i == 0 {
			s.CPU = mine
		} else {
			s.GPU = mine
		}
	}
	return s, nil
}

// Fits is an error with the reason if so many sequences of so many tokens each do not fit into one of the two memories.
func (s *Split) Fits(sequences, tokens int) error {
	if s.GPU != nil {
		if err := s.GPU.Fits(sequences, tokens); err != nil {
			return err
		}
	}
	if s.CPU != nil {
		return s.CPU.Fits(sequences, tokens)
	}
	return nil
}

// First is how long a prompt takes alone, s.
func (s *Split) First(w Workload) float64 { return s.whole.first(w, 1) }

// Token is how long a token takes one sequence, in the middle of its answer, s. The two sides take turns: it is the sum of both.
func (s *Split) Token(w Workload) float64 {
	return s.whole.Seconds(&graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: w.Input + w.Output/2}}})
}

// CheapestSplit has as many last layers on the GPU as have room there for a sequence of so many tokens; or, of a model with experts, all layers without the experts of as few first ones as
// there is no room for, or as many as have room without any; or none: whichever takes a token least time. With experts the experts of so many first layers are on the CPU whatever is chosen. The reason is why
// more has no room; nil: all has.
func CheapestSplit(cpu, gpu Side, experts int, w Workload, lim Limits, until string) (best *Split, reason, err error) {
	at := func(last, experts int) *Split {
		s, e := NewSplit(cpu, gpu, last, experts, lim, until)
		if e != nil && err == nil {
			err = e
		}
		return s
	}
	room := func(last, experts int) bool {
		s := at(last, experts)
		if s == nil {
			return false
		}
		e := s.Fits(1, w.Input+w.Output)
		if e != nil {
			reason = e
		}
		return e == nil
	}
	layers := gpu.Graph.Layers()
	onGPU := func(experts int) int { return sort.Search(layers, func(i int) bool { return !room(i+1, experts) }) }
	most := onGPU(experts)
	choices := []*Split{at(0, 0), at(most, experts)}
	if first, last := expertLayers(gpu.Graph); experts == 0 && most < layers && last > 0 {
		n := first + sort.Search(last-first, func(i int) bool { return room(layers, first+i) })
		if room(layers, n) {
			choices = append(choices, at(layers, n))
		} else if n := onGPU(layers); n > 0 {
			choices = append(choices, at(n, layers))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	for _, s := range choices {
		if best == nil || s.Token(w) < best.Token(w) {
			best = s
		}
	}
	return best, reason, nil
}

// expertLayers are how many first layers have experts of one of them, and of all of them, among them; 0 and 0: there are none.
func expertLayers(g *graph.Graph) (first, last int) {
	for _, n := range g.Nodes {
		if _, ok := graph.Experts(n); ok {
			if last = n.Layer + 1; first == 0 {
				first = last
			}
		}
	}
	return first, last
}
