package simulate

import (
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/route/policy"
)

// TestApart: with servers for prompts answers go on while prompts are computed elsewhere, whose first tokens come when what was computed has crossed the link; times are those of the
// prices, by hand.
func TestApart(t *testing.T) {
	const token, step = 1e-5, 1e-3 // s
	run := func(o Options, a *Apart) *Result {
		t.Helper()
		p, err := policy.New("least_load")
		if err != nil {
			t.Fatal(err)
		}
		o.Limits = backend.Limits{Tokens: 512, Seqs: 64, Logits: 64, PageSize: 16, SeqPages: 300, Pages: 20000}
		o.Cost = func(s *graph.Step) float64 { return step + token*float64(s.Tokens()) }
		if a != nil {
			a.Limits = o.Limits
			a.Limits.Tokens = a.Limits.SeqPages * a.Limits.PageSize
		}
		r, err := RunReplicas(o, Replicas{Count: 1, Policy: p, Apart: a})
		if err != nil {
			t.Fatal(err)
		}
		if r.Report.Completed != len(o.Trace.Requests) {
			t.Fatalf("%d of %d requests were answered", r.Report.Completed, len(o.Trace.Requests))
		}
		return r
	}
	one := &trace.Trace{Name: "one", Requests: []trace.Request{{Input: 2048, Output: 10}}}
	r := run(Options{Trace: one}, &Apart{Prefill: 1, Link: 1e9, Token: 100_000})
	prompt := 4*step + 2048*token
	crossing := max(512*100_000/1e9, 2048*100_000/1e9-prompt) // 0.205 s: longer than the prompt
	want := prompt + crossing + step + 16*token
	if got := r.Report.Records[0].TTFT.Seconds(); got < want*0.999 || got > want*1.001 {
		t.Errorf("the first token comes after %v s, and by hand %v", got, want)
	}
	if r.Prefill.Prompts != 1 || r.Prefill.Moved != 2048*100_000 || len(r.Prefill.Servers) != 1 {
		t.Errorf("the pool for prompts: %+v", r.Prefill)
	}
	if short := run(Options{Trace: one}, &Apart{Prefill: 1, Link: 1e9, Token: 100_000, From: 4096}); short.Prefill.Prompts != 0 || short.Report.Records[0].TTFT.Seconds() < prompt-4*step {
		t.Errorf("a prompt that is too short: %d were computed apart, first token after %v", short.Prefill.Prompts, short.Report.Records[0].TTFT)
	}
	many := &trace.Trace{Name: "many"}
	for i := range 100 {
		many.Requests = append(many.Requests, trace.Request{At: time.Duration(i) * 50 * time.Millisecond, Input: 2048, Output: 100})
	}
	both, apart := run(Options{Trace: many}, nil), run(Options{Trace: many}, &Apart{Prefill: 1, Link: 1e12, Token: 100_000})
	if apart.Report.ITL.P95 > 2e3*step || both.Report.ITL.P95 < 3e3*step {
		t.Errorf("ITL p95 is %v ms with both on one server and %v apart", both.Report.ITL.P95, apart.Report.ITL.P95)
	}
	for i, x := range apart.Report.Records {
		if x.At != many.Requests[i].At {
			t.Fatalf("record %d is of a request at %v", i, x.At)
		}
	}
	for _, bad := range []Apart{{}, {Prefill: 1}, {Prefill: 1, Link: 1, From: -1}} {
		if _, err := RunReplicas(Options{Trace: one}, Replicas{Count: 1, Apart: &bad}); err == nil {
			t.Errorf("%+v is simulated", bad)
		}
	}
}
