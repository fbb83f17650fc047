package price_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// everyAdapter is a device that computes what adapters ask for, and nothing as one.
type everyAdapter struct{}

func (everyAdapter) NormRows(*graph.Node) int { return 0 }

func (everyAdapter) Has(n *graph.Node) bool {
	_, experts := n.Op.(graph.AdaptedMoE)
	_, heads := n.Op.(graph.LoRAHeads)
	return experts || heads
}

// adaptedModel prices a model with slots for adapters.
func adaptedModel(t *testing.T, path, name string) (*graph.Graph, *price.Model) {
	t.Helper()
	b, err := modeldir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := device(t, name)
	g, err := b.Model.Graph(model.Options{Act: p.ActType(), Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: p.Q8, BF16: p.RoundBF16, Kernels: everyAdapter{}, Adapters: pass.Adapters{Slots: 4, Rank: 16}}); err != nil {
		t.Fatal(err)
	}
	m, err := price.New(g, p)
	if err != nil {
		t.Fatal(err)
	}
	return g, m
}

// TestAdaptersAreDeclaredWork: what adapters of a step are priced as is what the operations declare for them: rows by adapter, ranks and bytes mixed, with rows that
// are left alone, and nothing in a step without.
func TestAdaptersAreDeclaredWork(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 1))
	seen := map[string]bool{}
	for _, path := range []string{"llama-default", "qwen3moe-ofall", "mixtral-window", "kimi-linear", "gemma2"} {
		for _, name := range []string{"zen4", "h200"} {
			g, m := adaptedModel(t, "../internal/check/testdata/"+path, name)
			for range 20 {
				s := randomStep(rnd)
				for seq, q := range s.Seqs {
					if slot := rnd.IntN(6); slot < 4 {
						s.Adapters = append(s.Adapters, graph.StepAdapter{Seq: seq, Skip: rnd.IntN(q.New), Slot: slot, Rank: 4 * (1 + slot), Bytes: 2 + 2*(slot%2)})
					}
				}
				slices.SortStableFunc(s.Adapters, func(a, b graph.StepAdapter) int { return cmp.Compare(a.Slot, b.Slot) })
				breakdown := m.Breakdown(s)
				for i, line := range breakdown.Lines {
					seen[g.Nodes[i].Op.Name()] = true
					if want := g.Nodes[i].Op.Work(g.Nodes[i], s); line.Work != want {
						t.Fatalf("%s on %s: %s in %+v:\npriced   %+v\ndeclared %+v", path, name, g.Nodes[i], *s, line.Work, want)
					}
					if graph.IsAdapter(g.Nodes[i]) && len(s.Adapters) == 0 && line.Seconds != 0 {
						t.Fatalf("%s takes %g s in a step without adapters", g.Nodes[i], line.Seconds)
					}
				}
				checkBreakdown(t, breakdown)
			}
		}
	}
	for _, op := range []string{"LoRA", "AdaptedMoE", "LoRAHeads"} {
		if !seen[op] {
			t.Errorf("no model has %s", op)
		}
	}
}

// TestAdaptersArePriced: more adapters take longer, and a step that is only planned is priced with adapters as the last one had them.
func TestAdaptersArePriced(t *testing.T) {
	for _, name := range []string{"zen4", "h200"} {
		_, m := adaptedModel(t, "../internal/check/testdata/llama-default", name)
		step := func(adapters int) *graph.Step {
			s := &graph.Step{Logits: 4}
			for seq := range 4 {
				s.Seqs = append(s.Seqs, graph.Seq{New: 1, Past: 50})
				if adapters > 0 {
					s.Adapters = append(s.Adapters, graph.StepAdapter{Seq: seq, Slot: seq * adapters / 4, Rank: 16, Bytes: 2})
				}
			}
			return s
		}
		none, one, four := m.Predict(step(0)), m.Predict(step(1)), m.Predict(step(4))
		if !(none < one && one < four) {
			t.Errorf("%s: a step takes %g s without adapters, %g with one and %g with four", name, none, one, four)
		}
		shape := price.Shape{Tokens: 4, Logits: 4, Rows: 204, Pairs: 204}
		if got := m.PredictShape(shape); got < none*(1-1e-9) || got > none*(1+1e-9) {
			t.Errorf("%s: a planned step takes %g s, and no adapters have been seen; %g is wanted", name, got, none)
		}
		m.Observe(step(4), four)
		if got := m.PredictShape(shape); got < four*(1-1e-6) || got > four*(1+1e-6) {
			t.Errorf("%s: after a step with four adapters a planned one takes %g s; %g is wanted", name, got, four)
		}
		m.Observe(step(0), none)
		if got := m.PredictShape(shape); got > none*1.2 {
			t.Errorf("%s: after a step without adapters a planned one takes %g s; about %g is wanted", name, got, none)
		}
	}
}
