package ridge

import (
	"math"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// TestStagePrices: a step over several devices is priced as on one of each stage: with half of a layer's weights it takes less than on one device and more than half, as two stages take what one device takes, and
// with requests of their own as long as with every other request.
func TestStagePrices(t *testing.T) {
	m, err := model.Shape("qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	p, err := price.Device("h200")
	if err != nil {
		t.Fatal(err)
	}
	priceOf := func(l pass.Layout) stepPrice {
		var stages []*graph.Graph
		for stage := range l.Pipeline {
			part, err := pass.Run(g, pass.All, pass.Options{Layout: l, Rank: pass.Rank{Stage: stage}})
			if err != nil {
				t.Fatal(err)
			}
			stages = append(stages, part)
		}
		x, err := stagePrices(stages, p, l.Data)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	step := &graph.Step{Logits: 64}
	for i := range 64 {
		step.Seqs = append(step.Seqs, graph.Seq{New: 1, Past: 1000 + i})
	}
	one, two, stages := priceOf(pass.Layout{Tensor: 1, Pipeline: 1, Data: 1}), priceOf(pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}), priceOf(pass.Layout{Tensor: 1, Pipeline: 2, Data: 1})
	if a, b := one.Floor(step), two.Floor(step); b >= 0.8*a || b <= a/2 {
		t.Errorf("a step has a floor of %g s on one device and of %g s on two that share every layer", a, b)
	}
	if a, b := one.Floor(step), stages.Floor(step); math.Abs(b/a-1) > 0.02 {
		t.Errorf("a step has a floor of %g s on one device and of %g s in two stages", a, b)
	}
	own := priceOf(pass.Layout{Tensor: 1, Pipeline: 1, Data: 2, Expert: 2})
	half := &graph.Step{Logits: 32}
	for i := 0; i < 64; i += 2 {
		half.Seqs = append(half.Seqs, step.Seqs[i])
	}
	inner := own.(*replicaPrices).prices
	if a, b := own.Predict(step), inner.Predict(half); a != b {
		t.Errorf("64 requests on two devices are priced %g s, and 32 on one of them %g s", a, b)
	}
	if a, b := own.Floor(step), one.Floor(step); a >= b {
		t.Errorf("two devices with requests of their own have a floor of %g s, and one device %g s", a, b)
	}
	if a, b := own.PredictShape(price.Shape{Tokens: 64, Logits: 64, Rows: 64 * 1000, Pairs: 64 * 1000}), inner.PredictShape(price.Shape{Tokens: 32, Logits: 32, Rows: 32 * 1000, Pairs: 32 * 1000}); a != b {
		t.Errorf("the shape of 64 requests on two devices is priced %g s, and of 32 on one of them %g s", a, b)
	}
	own.Observe(step, 2*own.Predict(step))
	if predicted, actual := own.Last(); math.Abs(actual/predicted-2) > 1e-6 {
		t.Errorf("a step that took twice as long is told as %g s of %g s", actual, predicted)
	}
}
