package capacity

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// Layout is how a model is spread over devices. Tensor × Pipeline devices hold one copy of the model, and there are Data
// copies that share nothing.
type Layout struct {
	Tensor   int `json:"tensor"`   // devices that share every layer (Shoeybi et al., arXiv:1909.08053)
	Pipeline int `json:"pipeline"` // groups of them, each with a run of layers
	Data     int `json:"data"`     // copies of the model
	// Expert is how many devices divide the experts of a layer among them; 0 or 1: none. Up to Tensor of them are devices of one
	// copy, which cut each expert Tensor / Expert times; more are devices of several copies, whose rows meet at the experts
	// (Lepikhin et al., arXiv:2006.16668).
	Expert int `json:"expert,omitempty"`
}

// Devices is how many devices the layout takes.
func (l Layout) Devices() int { return l.Tensor * l.Pipeline * l.Data }

// String is the layout as people write it: "tp4 pp2 dp1", "tp1 pp1 dp8 ep8".
func (l Layout) String() string {
	s := fmt.Sprintf("tp%d pp%d dp%d", l.Tensor, l.Pipeline, l.Data)
	if l.Expert > 1 {
		s += fmt.Sprintf(" ep%d", l.Expert)
	}
	return s
}

// expert is among how many devices experts are divided.
func (l Layout) expert() int { return max(l.Expert, 1) }

// within is among how many devices of one copy they are, and across of how many copies.
func (l Layout) within() int { return min(l.expert(), l.Tensor) }
func (l Layout) across() int { return l.expert() / l.within() }

// Check says why a model cannot be spread so; nil when it can.
func (l Layout) Check(g *graph.Graph) error {
	if l.Tensor < 1 || l.Pipeline < 1 || l.Data < 1 {
		return fmt.Errorf("capacity: the layout %s has less than one device in a direction", l)
	}
	if n := len(g.Caches); l.Pipeline > n {
		return fmt.Errorf("capacity: %d pipeline stages for the %d layers of %s; at most one stage a layer is possible", l.Pipeline, n, g.Name)
	}
	if err := l.checkExperts(g); err != nil {
		return err
	}
	of := expertWeights(g)
	for _, w := range g.Weights {
		for _, a := range []graph.Axis{w.Out, w.In} {
			if err := divides(a, l.pieces(of[w])); err != nil {
				return fmt.Errorf("capacity: %s: %w", w.Name, err)
			}
		}
	}
	return nil
}

// checkExperts says why a model's experts cannot be divided so.
func (l Layout) checkExperts(g *graph.Graph) error {
	if l.expert() == 1 {
		return nil
	}
	if l.Tensor%l.within() != 0 || l.expert()%l.within() != 0 || l.Data%l.across() != 0 {
		return fmt.Errorf("capacity: the layout %s divides experts among %d devices; those of one copy (%d) or of several whole copies (of %d) can share them", l, l.expert(), l.Tensor, l.Data)
	}
	some := false
	for _, n := range g.Nodes {
		if o, ok := n.Op.(graph.MoE); ok {
			some = true
			if o.Experts%l.expert() != 0 {
				return fmt.Errorf("capacity: the %d experts of %s cannot be divided equally among %d devices", o.Experts, g.Name, l.expert())
			}
		}
	}
	if !some {
		return fmt.Errorf("capacity: the layout %s divides experts, and %s has none", l, g.Name)
	}
	return nil
}

// expertWeights are the weights of experts.
func expertWeights(g *graph.Graph) map[*graph.Weight]bool {
	of := map[*graph.Weight]bool{}
	for _, n := range g.Nodes {
		if _, ok := n.Op.(graph.MoE); ok {
			for _, w := range n.Weights {
				of[w] = true
			}
		}
	}
	return of
}

// pieces is how many devices cut a weight, which may be an expert's.
func (l Layout) pieces(ofExpert bool) int {
	if ofExpert {
		return l.Tensor / l.within()
	}
	return l.Tensor
}

// divides says why tensor parallelism cannot cut an axis. Key heads may be fewer than devices, which then hold copies;
// a vocabulary is padded.
func divides(a graph.Axis, pieces int) error {
	switch {
	case !cut(a) || a.Name == "vocab" || a.Count%pieces == 0:
		return nil
	case a.Name == "kv" && pieces%a.Count == 0:
		return nil
	}
	return fmt.Errorf("%d %s cannot be divided equally among %d devices", a.Count, a.Name, pieces)
}

// cut tells the axes that tensor parallelism divides. The residual stream (hidden) is whole on every device.
func cut(a graph.Axis) bool {
	return a.Name == "heads" || a.Name == "kv" || a.Name == "ffn" || a.Name == "vocab"
}

// share is one piece of so many of an axis.
func share(a graph.Axis, pieces int) graph.Axis {
	if cut(a) {
		a.Count = (a.Count + pieces - 1) / pieces
	}
	return a
}

// stage is the pipeline stage that a layer belongs to, of so many layers.
func (l Layout) stage(layer, layers int) int { return layer * l.Pipeline / layers }
