package simulate

import (
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// large costs a step about what it takes an 8B model on a large GPU.
func large(s *graph.Step) float64 {
	return 0.005 + 20e-6*float64(s.Tokens()) + 30e-9*float64(s.CtxRows(0))
}

// BenchmarkLongPrompts says how many times as fast as real time prompts of 4k to 24k tokens are simulated, 64 at once.
func BenchmarkLongPrompts(b *testing.B) {
	lim := backend.Limits{Tokens: 2048, Seqs: 64, Logits: 64, PageSize: 16, SeqPages: 2048, Pages: 64 * 2048}
	for b.Loop() {
		r, err := Run(Options{Trace: spec(b, "poisson:rate=2,n=200,in=4000-24000,out=50-600"), Limits: lim, Cost: large})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(r.Faster, "×real")
	}
}
