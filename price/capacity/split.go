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
	CPU, GPU *Setup // their memory; nil: it has no layer
	whole    *Setup // for the time of steps
}

// NewSplit prices a model with so many last layers on the GPU, 0 to all of them.
func NewSplit(cpu, gpu Side, last int, lim Limits, until string) (*Split, error) {
	if err := lim.Check(); err != nil {
		return nil, err
	}
	layers := gpu.Graph.Layers()
	if last < 0 || last > layers {
		return nil, fmt.Errorf("capacity: %d layers on the GPU; the model has %d", last, layers)
	}
	s := &Split{Last: last}
	one := func(x Side) (*Setup, error) {
		x.Passes.Rank = pass.Rank{}
		return New(x.Graph, x.Device, pass.OneDevice, lim, until, x.Passes)
	}
	var err error
	switch last {
	case 0:
		s.CPU, err = one(cpu)
		s.whole = s.CPU
		return s, err
	case layers:
		s.GPU, err = one(gpu)
		s.whole = s.GPU
		return s, err
	}
	l := pass.Split(layers, last)
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

// CheapestSplit has as many last layers on the GPU as have room there for a sequence of so many tokens, or none where a token takes no longer on the CPU alone: a layer takes a step about
// as long as any other, so one or the other takes least. The reason is why one layer more has no room; nil: all have.
func CheapestSplit(cpu, gpu Side, w Workload, lim Limits, until string) (best *Split, reason, err error) {
	at := func(last int) *Split {
		s, e := NewSplit(cpu, gpu, last, lim, until)
		if e != nil && err == nil {
			err = e
		}
		return s
	}
	layers := gpu.Graph.Layers()
	most := sort.Search(layers, func(i int) bool {
		s := at(i + 1)
		if s == nil {
			return true
		}
		room := s.GPU.Fits(1, w.Input+w.Output)
		if room != nil {
			reason = room
		}
		return room != nil
	})
	alone, some := at(0), at(most)
	if err != nil {
		return nil, nil, err
	}
	if some.Token(w) >= alone.Token(w) {
		return alone, reason, nil
	}
	return some, reason, nil
}
