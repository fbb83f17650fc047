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
}

// Devices is how many devices the layout takes.
func (l Layout) Devices() int { return l.Tensor * l.Pipeline * l.Data }

// String is the layout as people write it: "tp4 pp2 dp1".
func (l Layout) String() string { return fmt.Sprintf("tp%d pp%d dp%d", l.Tensor, l.Pipeline, l.Data) }

// Check says why a model cannot be spread so; nil when it can.
func (l Layout) Check(g *graph.Graph) error {
	if l.Tensor < 1 || l.Pipeline < 1 || l.Data < 1 {
		return fmt.Errorf("capacity: the layout %s has less than one device in a direction", l)
	}
	if n := len(g.Caches); l.Pipeline > n {
		return fmt.Errorf("capacity: %d pipeline stages for the %d layers of %s; at most one stage a layer is possible", l.Pipeline, n, g.Name)
	}
	for _, w := range g.Weights {
		for _, a := range []graph.Axis{w.Out, w.In} {
			if err := l.divides(a); err != nil {
				return fmt.Errorf("capacity: %s: %w", w.Name, err)
			}
		}
	}
	return nil
}

// divides says why tensor parallelism cannot cut an axis. Key heads may be fewer than devices, which then hold copies;
// a vocabulary is padded.
func (l Layout) divides(a graph.Axis) error {
	switch {
	case !cut(a) || a.Name == "vocab" || a.Count%l.Tensor == 0:
		return nil
	case a.Name == "kv" && l.Tensor%a.Count == 0:
		return nil
	}
	return fmt.Errorf("%d %s cannot be divided equally among %d devices", a.Count, a.Name, l.Tensor)
}

// cut tells the axes that tensor parallelism divides. The residual stream (hidden) is whole on every device.
func cut(a graph.Axis) bool {
	return a.Name == "heads" || a.Name == "kv" || a.Name == "ffn" || a.Name == "vocab"
}

// share is one device's part of an axis.
func (l Layout) share(a graph.Axis) graph.Axis {
	if cut(a) {
		a.Count = (a.Count + l.Tensor - 1) / l.Tensor
	}
	return a
}

// stage is the pipeline stage that a layer belongs to, of so many layers.
func (l Layout) stage(layer, layers int) int { return layer * l.Pipeline / layers }
