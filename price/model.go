package price

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/graph"
)

// Model prices the steps of one graph on one device. Its methods may be called from any goroutine.
type Model struct {
	profile *Profile
	graph   *graph.Graph
	groups  []*group
	windows []window // of the caches, each once
	weights int64    // bytes that every step reads
	vocab   float64
	devices int64                // that divide the rows of steps; 0: all are here
	own     bool                 // each has sequences of its own, and a step is one device's
	adapted atomic.Pointer[load] // the last step that was observed, where steps have adapters

	mu      sync.Mutex
	correct [2]correction // of launched steps and of replayed ones, which overlap differently
	record  record
}

// New prepares pricing. The graph is the one that runs, after the passes: a node is one launch. p.Fit may be nil, which is Typical.
func New(g *graph.Graph, p *Profile) (*Model, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.complete()
	m := &Model{profile: p, graph: g, windows: []window{{}}, vocab: float64(g.Output.Axis.Len()), devices: int64(g.Sequence.Ranks), own: g.Sequence.Own}
	seen := map[window]bool{{}: true}
	for n := range g.Operations() {
		for _, v := range n.In {
			if v.Cache == nil {
				continue
			}
			if w := windowOf(n, v.Cache); !seen[w] {
				seen[w] = true
				m.windows = append(m.windows, w)
			}
		}
	}
	if len(m.windows) > maxWindows {
		return nil, fmt.Errorf("price: the caches of graph %s have %d different windows; %d can be priced", g.Name, len(m.windows), maxWindows)
	}
	var err error
	if m.groups, err = groupsOf(g, p, m.windows); err != nil {
		return nil, err
	}
	for _, x := range m.groups {
		m.weights += x.fixed.WeightBytes * int64(len(x.nodes))
	}
	for i := range m.correct {
		m.correct[i].reset()
	}
	m.record.late, m.record.slow = initialLate, 1
	return m, nil
}

// Profile is the device.
func (m *Model) Profile() *Profile { return m.profile }

// Price is the breakdown of one step; use a Model for many.
func Price(g *graph.Graph, s *graph.Step, p *Profile) (*Breakdown, error) {
	m, err := New(g, p)
	if err != nil {
		return nil, err
	}
	return m.Breakdown(s), nil
}

// Predict is how long a step takes, in seconds. It allocates nothing.
func (m *Model) Predict(s *graph.Step) float64 { return m.predict(m.measure(s)) }

// PredictShape is Predict for a scheduler that has not yet made the step.
func (m *Model) PredictShape(s Shape) float64 { return m.predict(m.guess(s)) }

func (m *Model) predict(l load) float64 {
	p := m.parts(&l)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.correct[m.kind(&l)].apply(&p)
}

// part is a share of a step's time with a correction factor of its own.
type part uint8

const (
	arithmeticPart part = iota // compute-bound products
	readingPart                // memory-bound products
	attentionPart
	linkPart   // communication
	restPart   // of the nodes
	launchPart // of all nodes
	hostPart   // CPU overhead
	partCount
)

// part is the part that the time of a group's operations counts as, launches apart.
func (x *group) part(c *cost) part {
	switch {
	case x.class == Attention:
		return attentionPart
	case x.class == Collective:
		return linkPart
	case x.class != Linear:
		return restPart
	case c.fetched > c.worked:
		return readingPart
	}
	return arithmeticPart
}

// kind is which correction a step with this load has.
func (m *Model) kind(l *load) int {
	if m.replays(l) {
		return 1
	}
	return 0
}

// replays reports whether the device replays a recording for the step.
func (m *Model) replays(l *load) bool { return m.profile.Replays && l.decodes }

// parts is the price of a load, uncorrected, s.
func (m *Model) parts(l *load) (parts [partCount]float64) {
	set := m.workingSet(l)
	for _, x := range m.groups {
		c := m.cost(x, l, set)
		parts[x.part(&c)] += (c.seconds - c.launch) * float64(len(x.nodes))
		parts[launchPart] += c.launch * float64(len(x.nodes))
	}
	parts[hostPart] = m.host(l)
	return parts
}

// host is the CPU overhead of a step, s.
func (m *Model) host(l *load) float64 {
	f := m.profile.Fit
	step := f.Step
	if m.replays(l) {
		step = f.ReplayStep
	}
	return step + f.Row*float64(l.tokens) + (f.Read+f.Logit)*m.vocab*float64(l.logits)
}

// workingSet is where the bytes come from that every step reads again, weights and cache rows: the nearest level that holds them.
func (m *Model) workingSet(l *load) residency {
	set := m.weights
	share := *l
	if m.devices > 1 {
		share = l.share(m.devices)
	}
	for _, x := range m.groups {
		if x.queries != nil { // those of other devices pass through
			set += x.queries.perRow.CacheRead * share.rows[x.window] * int64(len(x.nodes))
			continue
		}
		each := x.perRow.CacheRead*l.rows[x.window] + x.perRankByte.WeightBytes*l.adapters.rankBytes
		if x.adapted != nil {
			each += x.adapted(l.adapters)
		}
		set += each * int64(len(x.nodes))
	}
	return m.profile.residency(set)
}
