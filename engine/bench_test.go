package engine

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// BenchmarkStep is a step of so many answers: ns/op, and of those the ones in which the device has nothing to do. MODEL is
// a model's path; without it the built-in one is measured.
func BenchmarkStep(b *testing.B) {
	open := modeldir.Builtin
	if path := os.Getenv("MODEL"); path != "" {
		open = func() (*modeldir.Dir, error) { return modeldir.Open(path) }
	}
	for _, temperature := range []float64{0, 0.8} {
		for _, n := range []int{1, 16, 32} {
			b.Run(fmt.Sprintf("temperature=%g/requests=%d", temperature, n), func(b *testing.B) {
				e := still(b, open, backend.Limits{Tokens: 512, Seqs: n, Logits: n, PageSize: 16, SeqPages: 64, Pages: 64 * n}, Options{})
				for i := range n {
					r := greedy([]int32{int32(10 + i), 20, 30}, 1000)
					r.Params.Temperature, r.Params.TopP, r.Params.TopK = temperature, 0.95, 40
					if err := e.Submit(context.Background(), r); err != nil {
						b.Fatal(err)
					}
				}
				e.admit()
				mustStep(b, e)
				e.meter.stats = Stats{}
				for b.Loop() {
					if err := e.step(); err != nil {
						b.Fatal(err)
					}
				}
				if len(e.queue.byID) < n {
					b.Fatal("requests have come to their end; measure fewer steps")
				}
				b.ReportMetric(float64(e.meter.stats.HostTime.Nanoseconds()), "host-ns/op")
			})
		}
	}
}
