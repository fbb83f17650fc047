package ridge

import (
	"context"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/graph"
)

// floorOf prices steps as a model does, with a roofline of its own.
type floorOf struct {
	stepPrice
	seconds float64
}

// Floor is the same for every step.
func (p *floorOf) Floor(*graph.Step) float64 { return p.seconds }

// TestExplainedFloor: the floor of an answer is that of its prompt's steps and of one for each token but the first, and what the device has beaten is not reported.
func TestExplainedFloor(t *testing.T) {
	m, err := Load("", Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p := Greedy()
	p.MaxTokens, p.IgnoreEnd = 5, true
	var end *Finish
	for piece, err := range m.Generate(context.Background(), "Once upon a time there was a fox.", p) {
		if err != nil {
			t.Fatal(err)
		}
		if piece.Finish != nil {
			end = piece.Finish
		}
	}
	for _, seconds := range []float64{1e-9, 1e6} {
		m.price = &floorOf{m.price, seconds}
		x := m.Explain(end)
		if want := min(5*seconds, x.Wall); math.Abs(x.Floor-want) > 1e-12 {
			t.Errorf("a floor of %g s for a prompt's step and four more of %g s, within %g s; it should be %g", x.Floor, seconds, x.Wall, want)
		}
	}
}
