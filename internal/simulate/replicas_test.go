package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/route/policy"
)

// conversations are so many, by turns, each turn the one before and 64 tokens more.
func conversations(n, turns int) *trace.Trace {
	t := &trace.Trace{Name: "conversations", BlockSize: 64}
	for turn := range turns {
		for who := range n {
			q := trace.Request{At: time.Duration(turn*n+who) * 20 * time.Millisecond, Input: 64 * (turn + 1), Output: 4}
			for i := range turn + 1 {
				q.Blocks = append(q.Blocks, uint64(1000*who+i))
			}
			t.Requests = append(t.Requests, q)
		}
	}
	return t
}

// TestReplicas: each of four replicas has room for two of seven conversations. Cache-aware routing finds what one server with all of the memory finds, and by turns hardly
// anything; every request is answered, and a simulation is the same every time.
func TestReplicas(t *testing.T) {
	run := func(name string, events bool, count int) *Result {
		t.Helper()
		p, err := policy.New(name)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Trace: conversations(7, 8), Limits: backend.Limits{Tokens: 512, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 40, Pages: 90 * 4 / count},
			Cost: func(s *graph.Step) float64 { return 1e-4 + 1e-6*float64(s.Tokens()) }}
		r, err := RunReplicas(o, Replicas{Count: count, Policy: p, Events: events})
		if err != nil {
			t.Fatal(err)
		}
		if r.Report.Completed != 56 || len(r.Replicas) != count {
			t.Fatalf("%s: %d of 56 requests were answered", name, r.Report.Completed)
		}
		return r
	}
	hits := func(r *Result) float64 { return float64(r.Stats.Found) / float64(r.Stats.Queried) }
	one := run("round_robin", false, 1)
	sent, told, turns := run("cache_aware", false, 4), run("cache_aware", true, 4), run("round_robin", false, 4)
	if hits(one) < 0.7 || hits(sent) < 0.9*hits(one) || hits(told) < 0.9*hits(one) || hits(turns) > 0.7*hits(one) {
		t.Errorf("found: one server %.2f, by what was sent %.2f, by events %.2f, by turns %.2f", hits(one), hits(sent), hits(told), hits(turns))
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		return slices.Contains([]string{".HostTime", ".StepTime", ".Rate"}, p.Last().String())
	}, cmp.Ignore())
	if diff := cmp.Diff(told.Replicas, run("cache_aware", true, 4).Replicas, ignore); diff != "" {
		t.Errorf("a second simulation differs: %s", diff)
	}
	for _, bad := range []Replicas{{Count: 0}, {Count: 65}} {
		if _, err := RunReplicas(Options{Trace: conversations(1, 1)}, bad); err == nil {
			t.Errorf("%d replicas are simulated", bad.Count)
		}
	}
	if _, err := RunReplicas(Options{Trace: conversations(1, 1), Concurrency: 2}, Replicas{Count: 2}); err == nil {
		t.Error("a closed loop is simulated")
	}
	if _, err := RunReplicas(Options{Engine: engine.Options{}}, Replicas{Count: 2}); err == nil {
		t.Error("nothing is simulated")
	}
}
