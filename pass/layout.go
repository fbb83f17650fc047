package pass

import (
	"cmp"
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// Layout is how a model is spread over devices. Tensor × Pipeline devices hold one replica of the model, and there are Data replicas.
// The zero Layout is one device.
type Layout struct {
	Tensor   int `json:"tensor"`   // devices that share every layer (Shoeybi et al., arXiv:1909.08053)
	Pipeline int `json:"pipeline"` // stages, each with a range of the layers
	Data     int `json:"data"`     // replicas of the model
	// Expert is how many devices divide the experts of a layer among them; 0 or 1: none. Up to Tensor of them are devices of one
	// replica, which cut each expert Tensor / Expert times; more are devices of several replicas, whose rows meet at the experts
	// (Lepikhin et al., arXiv:2006.16668): each replica attends to sequences of its own (data-parallel attention), and all compute steps together.
	Expert int `json:"expert,omitempty"`
	// Sequence is how many devices divide the rows of every step, each with all of the layers' weights; 0 or 1: none. Method is how they attend: Ulysses or Ring.
	Sequence int    `json:"sequence,omitempty"`
	Method   string `json:"sequence_method,omitempty"`
	// Layers is how many layers each stage of the pipeline has, 1 at least; nil: as equally many as can be.
	Layers []int `json:"layers,omitempty"`
	// EarlyExperts is of how many first layers of the model the experts are on the first of two stages although the layers may be on the second; 0: experts are where their layers are.
	EarlyExperts int `json:"early_experts,omitempty"`
	// ExpertSlots is how many experts of each such layer of the second stage this has too: those that are used most, see graph.CacheShares.
	ExpertSlots int `json:"expert_slots,omitempty"`
}

// Rank is a device of a layout.
type Rank struct {
	Replica  int // below Data
	Stage    int // of the pipeline
	Sequence int // among the devices that divide the rows of steps
	Tensor   int // among those of a stage that share them
}

// OneDevice is the layout without parallelism.
var OneDevice = Layout{Tensor: 1, Pipeline: 1, Data: 1}

// Split is the layout of two devices of which the second has so many last layers of a graph, and what is behind them.
func Split(layers, last int) Layout {
	return Layout{Tensor: 1, Pipeline: 2, Data: 1, Layers: []int{layers - last, last}}
}

// Devices is how many devices the layout takes.
func (l Layout) Devices() int { return l.Tensor * l.Pipeline * l.Data * max(l.Sequence, 1) }

// Rank is device i, counted by stage, then by rows and tensor rank.
func (l Layout) Rank(i int) Rank { return l.at(i/l.Tensor/l.ranks(), i/l.Tensor%l.ranks(), i%l.Tensor) }

// at is the device of a stage that has row number row of the devices with different rows.
func (l Layout) at(stage, row, tensor int) Rank {
	if l.Sources() > 1 {
		return Rank{Replica: row, Stage: stage, Tensor: tensor}
	}
	return Rank{Stage: stage, Sequence: row, Tensor: tensor}
}

// row is which of the devices with different rows a rank is.
func (l Layout) row(at Rank) int {
	if n := l.Sources(); n > 1 {
		return at.Replica % n
	}
	return at.Sequence
}

// Number is which device a rank is.
func (l Layout) Number(at Rank) int { return (at.Stage*l.ranks()+l.row(at))*l.Tensor + at.Tensor }

// Exchange is what devices of a group exchange numbers for.
type Exchange uint8

// The exchanges.
const (
	OfTensor   Exchange = iota // sums of the devices that share layers
	OfPipeline                 // what stages hand on
	OfSequence                 // rows, keys and values
	Exchanges                  // how many there are
)

// Group is devices, by their numbers, that exchange something.
type Group struct {
	Exchange Exchange
	Devices  []int
}

// Groups are the groups of devices, the same on all of them: those that share the layers of a stage and rows, those of the stages, and, where rows are divided, those that have other rows.
func (l Layout) Groups() (all []Group) {
	add := func(e Exchange, n int, at func(i int) Rank) {
		g := Group{Exchange: e}
		for i := range n {
			g.Devices = append(g.Devices, l.Number(at(i)))
		}
		all = append(all, g)
	}
	for i := range l.Pipeline * l.ranks() {
		add(OfTensor, l.Tensor, func(t int) Rank { return l.at(i/l.ranks(), i%l.ranks(), t) })
	}
	for i := range l.ranks() * l.Tensor {
		add(OfPipeline, l.Pipeline, func(s int) Rank { return l.at(s, i/l.Tensor, i%l.Tensor) })
	}
	if l.ranks() > 1 {
		for i := range l.Pipeline * l.Tensor {
			add(OfSequence, l.ranks(), func(q int) Rank { return l.at(i/l.Tensor, q, i%l.Tensor) })
		}
	}
	return all
}

// String is the layout as text: "tp4 pp2 dp1", "tp1 pp1 dp8 ep8".
func (l Layout) String() string {
	s := fmt.Sprintf("tp%d pp%d dp%d", l.Tensor, l.Pipeline, l.Data)
	if l.Expert > 1 {
		s += fmt.Sprintf(" ep%d", l.Expert)
	}
	if l.Sequence > 1 {
		s += fmt.Sprintf(" sp%d %s", l.Sequence, l.Method)
	}
	for i, n := range l.Layers {
		s += fmt.Sprintf("%s%d", map[bool]string{true: " layers ", false: "+"}[i == 0], n)
	}
	if l.EarlyExperts > 0 {
		s += fmt.Sprintf(" experts %d", l.EarlyExperts)
	}
	if l.ExpertSlots > 0 {
		s += fmt.Sprintf(" slots %d", l.ExpertSlots)
	}
	return s
}

// Splits reports whether one device of the layout has only a part of the model.
func (l Layout) Splits() bool { return l.Tensor > 1 || l.Pipeline > 1 || l.Expert > 1 || l.ranks() > 1 }

// expert is among how many devices experts are divided.
func (l Layout) expert() int { return max(l.Expert, 1) }

// within is among how many devices of one replica they are.
func (l Layout) within() int {
	if l.Sequence > 1 {
		return l.expert()
	}
	return min(l.expert(), max(l.Tensor, 1))
}

// Sources is how many replicas share the experts.
func (l Layout) Sources() int { return l.expert() / l.within() }

// pieces is how many devices cut an expert's weights.
func (l Layout) pieces() int { return max(l.Tensor/l.within(), 1) }

// stage is the pipeline stage that a layer belongs to, of so many layers.
func (l Layout) stage(layer, layers int) int {
	if l.Layers == nil {
		return layer * l.Pipeline / layers
	}
	for stage, n := range l.Layers {
		if layer < n {
			return stage
		}
		layer -= n
	}
	return l.Pipeline - 1
}

// checkLayers says why stages cannot have the layers that Layers gives them, of so many.
func (l Layout) checkLayers(layers int) error {
	if l.Layers == nil {
		return nil
	}
	if len(l.Layers) != l.Pipeline {
		return fmt.Errorf("the layout %s says of %d pipeline stages how many layers they have", l, len(l.Layers))
	}
	sum := 0
	for stage, n := range l.Layers {
		if n < 0 || n == 0 && (stage > 0 || l.EarlyExperts == 0) {
			return fmt.Errorf("the layout %s gives pipeline stage %d no layers; 1 at least is possible", l, stage)
		}
		sum += n
	}
	if sum != layers {
		return fmt.Errorf("the stages of the layout %s have %d layers together, and there are %d", l, sum, layers)
	}
	return nil
}

// Check says why a graph cannot be spread so; nil when it can.
func (l Layout) Check(g *graph.Graph) error {
	if err := l.divides(g); err != nil || !l.Splits() {
		return err
	}
	for stage := range l.Pipeline { // an op may want rows whole, as a norm over all heads does
		if _, err := Partition(g, Options{Layout: l, Rank: Rank{Stage: stage}}); err != nil {
			return fmt.Errorf("%s cannot be spread as %s: %w", g.Name, l, err)
		}
	}
	return nil
}

// divides says which axis of a graph cannot be divided so.
func (l Layout) divides(g *graph.Graph) error {
	if l.Tensor < 1 || l.Pipeline < 1 || l.Data < 1 {
		return fmt.Errorf("the layout %s has less than one device in a direction", l)
	}
	if n := g.Layers(); l.Pipeline > n && l.EarlyExperts == 0 {
		return fmt.Errorf("%d pipeline stages for the %d layers of %s; at most one stage a layer is possible", l.Pipeline, n, g.Name)
	} else if err := l.checkLayers(n); err != nil {
		return err
	}
	if err := l.checkSequence(g); err != nil {
		return err
	}
	if err := cmp.Or(l.checkEarly(g), l.checkSlots(g)); err != nil {
		return err
	}
	if err := l.checkExperts(g); err != nil {
		return err
	}
	units := unitsOf(g)
	for _, n := range g.Nodes {
		pieces := l.Tensor
		if o, ok := n.Op.(graph.RMSNorm); ok && o.Groups%pieces != 0 && cut(n.In[0].Axis) {
			return fmt.Errorf("%s normalises rows in %d groups, which cannot be divided equally among %d devices", n.Out[0].Name, o.Groups, pieces)
		}
		if _, ok := n.Op.(graph.MoE); ok {
			pieces = l.pieces()
		}
		for _, w := range n.Weights {
			if err := units.divides(w, pieces); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
	}
	return nil
}

// checkExperts says why a graph's experts cannot be divided so.
func (l Layout) checkExperts(g *graph.Graph) error {
	if l.expert() == 1 {
		return nil
	}
	if l.Tensor%l.within() != 0 && l.Sequence <= 1 || l.expert()%l.within() != 0 || l.Data%l.Sources() != 0 {
		return fmt.Errorf("the layout %s divides experts among %d devices; those of one replica (%d) or of several whole replicas (of %d) can share them", l, l.expert(), l.Tensor, l.Data)
	}
	some := false
	for _, n := range g.Nodes {
		if o, ok := n.Op.(graph.MoE); ok {
			some = true
			if o.Experts%l.expert() != 0 {
				return fmt.Errorf("the %d experts of %s cannot be divided equally among %d devices", o.Experts, g.Name, l.expert())
			}
		}
	}
	if !some {
		if l.Sources() > 1 {
			return fmt.Errorf("the layout %s divides experts, and %s has none; replicas that share nothing are servers of their own (ridge route)", l, g.Name)
		}
		return fmt.Errorf("the layout %s divides experts, and %s has none", l, g.Name)
	}
	return nil
}

func (r Rank) String() string {
	s := fmt.Sprintf("replica %d, stage %d, rank %d", r.Replica, r.Stage, r.Tensor)
	if r.Sequence > 0 {
		s += fmt.Sprintf(", rows %d", r.Sequence)
	}
	return s
}
