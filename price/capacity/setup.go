package capacity

import (
	"fmt"
	"math"
	"sort"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// Setup is a model in a layout over devices of one kind: its memory and the predicted time of its steps.
type Setup struct {
	Device  *price.Profile
	Layout  pass.Layout
	Usable  int64  // bytes of a device that may be used
	Memory  Memory // of the device with the most, without the cache
	Context int    // longest sequence of the model

	stages []stage
	budget int // tokens of a step
	seqs   int // of a step

	adapters pass.Adapters // that sequences have, in turn
}

// stage is one pipeline stage. All of its devices have equal parts.
type stage struct {
	graph *graph.Graph
	price *price.Model
}

// Limits bounds what a Setup runs.
type Limits struct {
	StepTokens  int     // rows of a step
	Sequences   int     // whose logits a step makes
	Context     int     // of a sequence, tokens
	Utilization float64 // of a device's memory, 0 to 1
}

// maxStep is the most tokens and sequences of a step.
const maxStep = 1 << 20

// Check says what is wrong with the limits.
func (lim Limits) Check() error {
	if !(lim.Utilization > 0 && lim.Utilization <= 1) {
		return fmt.Errorf("capacity: %g of a device's memory is to be used; it must be more than 0 and at most 1", lim.Utilization)
	}
	if lim.StepTokens < 1 || lim.Sequences < 1 || lim.Context < 1 {
		return fmt.Errorf("capacity: steps of %d tokens and %d sequences, contexts of %d; each must be 1 or more", lim.StepTokens, lim.Sequences, lim.Context)
	}
	if lim.StepTokens > maxStep || lim.Sequences > maxStep {
		return fmt.Errorf("capacity: steps of %d tokens and %d sequences; at most %d are possible", lim.StepTokens, lim.Sequences, maxStep)
	}
	return nil
}

// New prices a graph in a layout over devices, with the layers of its stages pass.Layout.Balanced, after the passes up to until. It does not check whether the model fits.
func New(g *graph.Graph, dev *price.Profile, l pass.Layout, lim Limits, until string, o pass.Options) (*Setup, error) {
	if err := lim.Check(); err != nil {
		return nil, err
	}
	l = l.Balanced(g)
	if l.Sequence > 1 && l.Method == "" {
		return cheapest(g, dev, l, lim, until, o)
	}
	if err := l.Check(g); err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	s := &Setup{Device: dev, Layout: l, Context: lim.Context, budget: lim.StepTokens, seqs: lim.Sequences, adapters: o.Adapters}
	s.Usable = int64(float64(dev.Memory().Bytes) * lim.Utilization)
	o.Layout = l
	for i := range l.Pipeline {
		o.Rank.Stage = i
		part, err := pass.Run(g, until, o)
		if err != nil {
			return nil, err
		}
		priced, err := price.New(part, dev)
		if err != nil {
			return nil, err
		}
		s.stages = append(s.stages, stage{part, priced})
		m := MemoryOf(part, lim.StepTokens, lim.Sequences)
		m.Workspace = workspace(part, lim)
		cache, state := m.CacheToken, max(m.State, s.Memory.State)
		if m.Fixed() > s.Memory.Fixed() {
			m.CacheToken, m.Windowed, m.Host = s.Memory.CacheToken, s.Memory.Windowed, max(m.Host, s.Memory.Host)
			s.Memory = m
		}
		if cache > s.Memory.CacheToken {
			s.Memory.CacheToken, s.Memory.Windowed = cache, windowed(part, lim.Context)
		}
		s.Memory.State, s.Memory.Host = state, max(s.Memory.Host, m.Host)
	}
	return s, nil
}

// cheapest is New with the method of dividing rows by which a prompt of the longest context takes least time, of those that the graph can have.
func cheapest(g *graph.Graph, dev *price.Profile, l pass.Layout, lim Limits, until string, o pass.Options) (*Setup, error) {
	var best *Setup
	var least float64
	var refused error
	for _, method := range []string{pass.Ulysses, pass.Ring} {
		l.Method = method
		s, err := New(g, dev, l, lim, until, o)
		if err != nil {
			refused = err
			continue
		}
		if t := s.first(Workload{Input: lim.Context, Output: 1}, 1); best == nil || t < least {
			best, least = s, t
		}
	}
	if best == nil {
		return nil, refused
	}
	return best, nil
}

// windowed is what a token takes in the caches whose windows are shorter than the context.
func windowed(g *graph.Graph, context int) (n int64) {
	for _, c := range g.CacheGroups() {
		if c.Window > 0 && c.Window < context {
			n += c.RowBytes()
		}
	}
	return share(g, n)
}

// CacheTokens is how many tokens of cache one replica has room for beside what the windows and states of as many sequences as it can run need;
// negative when its weights do not fit.
func (s *Setup) CacheTokens() int64 {
	free := s.Usable - s.Memory.Fixed()
	if free < 0 {
		return free
	}
	most := int(min(free, math.MaxInt32*int64(pageTokens))) // a token takes a byte at least
	return int64(sort.Search(most, func(tokens int) bool {
		for i := range s.stages {
			if s.tokensBytes(s.stages[i].graph, int64(tokens)+1) > free {
				return true
			}
		}
		return false
	}))
}

// tokensBytes is what so many tokens take in the caches of a stage, those of windows no more than steps can need, with as many states.
func (s *Setup) tokensBytes(g *graph.Graph, tokens int64) (n int64) {
	for _, c := range g.CacheGroups() {
		most := tokens
		if c.Window > 0 {
			most = min(most, int64(c.StepPages(s.shape(s.seqs, s.Context)))*pageTokens)
		}
		n += share(g, most) * c.RowBytes()
		if c.Recurrent {
			n += c.Bytes(c.StepPages(s.shape(s.seqs, s.Context)), pageTokens)
		}
	}
	return n
}

// shape is so many sequences of so many tokens.
func (s *Setup) shape(sequences, tokens int) graph.CacheShape {
	return graph.CacheShape{Seqs: sequences, Tokens: tokens, StepTokens: s.budget, PageSize: pageTokens}
}

// CacheBytes is what so many sequences of so many tokens need of the cache, on the device with the most.
func (s *Setup) CacheBytes(sequences, tokens int) (most int64) {
	for i := range s.stages {
		g := s.stages[i].graph
		var bytes int64
		for _, c := range g.CacheGroups() {
			pages := c.StepPages(s.shape(sequences, tokens))
			if !c.Recurrent {
				pages = int(share(g, int64(pages)))
			}
			bytes += c.Bytes(pages, pageTokens)
		}
		most = max(most, bytes)
	}
	return most
}

// Fits is an error with the reason if so many sequences of so many tokens each do not fit.
func (s *Setup) Fits(sequences, tokens int) error {
	m := s.Memory
	cache := s.CacheBytes(sequences, tokens)
	if tokens > s.Context {
		return fmt.Errorf("a sequence of %d tokens is longer than the model's context of %d", tokens, s.Context)
	}
	if need := m.Fixed() + cache; need > s.Usable {
		what := fmt.Sprintf("%d sequences", sequences)
		if sequences == 1 {
			what = "one sequence"
		}
		return fmt.Errorf("%s of weights, %s of activations, %s of workspace and %s of cache for %s of %d tokens need %s on each %s; %s of %s usable",
			size.Text(m.Weights), size.Text(m.Activations), size.Text(m.Workspace), size.Text(cache), what, tokens, size.Text(need), s.Device.Name, size.Text(s.Usable), size.Text(s.Device.Memory().Bytes))
	}
	return nil
}

// Seconds is how long a step takes.
func (s *Setup) Seconds(step *graph.Step) float64 {
	whole, _ := s.times(step)
	return whole
}

// StageSeconds is how long each pipeline stage is busy with a step.
func (s *Setup) StageSeconds(step *graph.Step) []float64 {
	all := make([]float64, len(s.stages))
	for i := range s.stages {
		all[i] = s.stages[i].price.Predict(step)
	}
	return all
}

// times is how long a step takes from the first stage to the last, and how long the slowest stage is busy with it, s.
func (s *Setup) times(step *graph.Step) (whole, slowest float64) {
	for i := range s.stages {
		t := s.stages[i].price.Predict(step)
		whole += t
		slowest = max(slowest, t)
	}
	return whole, slowest
}
