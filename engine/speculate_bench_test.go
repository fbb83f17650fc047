package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/price"
)

// wrong is a drafter that takes time, and whose tokens never come.
type wrong struct{ fives }

func (*wrong) Name() string     { return "wrong" }
func (*wrong) Concurrent() bool { return false }
func (*wrong) Seconds(seqs, tokens int) float64 {
	return 20e-6 * float64(tokens) * (1 + float64(seqs)/8)
}

// untimed is a device that takes no time.
type untimed struct{ backend.Device }

func (untimed) Run([]backend.Launch, *backend.Batch) error { return nil }

// pricedBy is a price model as a Predictor.
type pricedBy struct{ *price.Model }

func (p pricedBy) Predict(s sched.Shape) float64                    { return p.PredictShape(price.Shape(s)) }
func (p pricedBy) Observe(*graph.Step, float64) (predicted float64) { return 0 }

// builtinPrices prices steps of the built-in model on something like a thread of a CPU.
func builtinPrices(b *testing.B) pricedBy {
	dir, err := modeldir.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dir.Close() })
	g, err := dir.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		b.Fatal(err)
	}
	cpu := &price.Profile{Name: "thread", Source: "of the order of one CPU thread", FLOPs: map[price.Number]float64{price.F32: 60e9, price.Int8: 200e9}, Launch: 1e-6,
		Levels: []price.Level{{Name: "memory", Bytes: 1 << 30, Rate: 12e9}}}
	m, err := price.New(g, cpu)
	if err != nil {
		b.Fatal(err)
	}
	return pricedBy{m}
}

// BenchmarkDraftsInVain is what the engine itself takes for a step, on a device that takes no time, where answers are random tokens, so that no draft is worth it.
func BenchmarkDraftsInVain(b *testing.B) {
	lookahead := func() draft.Drafter {
		d, err := draft.NewLookahead(draft.LookaheadOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	ngram := func() draft.Drafter {
		d, err := draft.NewNGram(draft.NGramOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	for _, kind := range []struct {
		name string
		of   func() Speculation
	}{
		{"off", func() Speculation { return Speculation{} }},
		{"ngram", func() Speculation { return Speculation{Drafter: ngram(), Tokens: 5} }},
		{"suffix", func() Speculation { return Speculation{Drafter: draft.NewSuffix(), Tokens: 5} }},
		{"computed", func() Speculation {
			return Speculation{Drafter: &wrong{fives{of: func(int64) bool { return true }}}, Tokens: 5}
		}},
		{"all", func() Speculation {
			return Speculation{Drafter: draft.NewSuffix(), Beside: []Beside{{Drafter: ngram()}, {Drafter: &wrong{fives{of: func(int64) bool { return true }}}}, {Drafter: lookahead(), Tokens: 24}}, Tokens: 5}
		}},
	} {
		for _, n := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/requests=%d", kind.name, n), func(b *testing.B) {
				lim := backend.Limits{Tokens: 512, Seqs: n, Logits: n + 64, PageSize: 16, SeqPages: 64, Pages: 64 * n}
				e := stillOn(b, modeldir.Builtin, lim, Options{Predictor: builtinPrices(b), Speculation: kind.of()}, func(d backend.Device) backend.Device { return untimed{d} })
				id := 0
				submit := func() {
					random := rand.New(rand.NewPCG(uint64(id), 9))
					id++
					r := greedy(make([]int32, 200), 700)
					for i := range r.Prompt {
						r.Prompt[i] = int32(random.IntN(300))
					}
					for range 700 {
						r.Forced = append(r.Forced, StepOutput{Tokens: []int32{int32(random.IntN(300))}})
					}
					if err := e.Submit(context.Background(), r); err != nil {
						b.Fatal(err)
					}
				}
				fill := func() {
					for len(e.queue.byID) < n {
						submit()
						e.admit()
					}
				}
				fill()
				for range 300 {
					mustStep(b, e)
				}
				e.meter.stats = Stats{}
				for b.Loop() {
					if len(e.queue.byID) < n {
						b.StopTimer()
						fill()
						for range n {
							mustStep(b, e)
						}
						b.StartTimer()
					}
					if err := e.step(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(e.meter.stats.DraftTokens), "drafted")
			})
		}
	}
}
