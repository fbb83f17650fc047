package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sample"
)

// TestChainedOnHost: llama.cpp's own samplers, which no device has, are the host's where the device samples; beside requests that the device samples for, and with what
// a request has otherwise: several answers, log-probabilities. Tokens are those of a device that does not sample.
func TestChainedOnHost(t *testing.T) {
	lim := backend.Limits{Tokens: 64, Seqs: 8, Logits: 8, PageSize: 4, SeqPages: 32, Pages: 128}
	chains := []func(*sample.Params){
		func(p *sample.Params) { p.XTCProbability, p.XTCThreshold = 0.7, 0.1 },
		func(p *sample.Params) { p.Mirostat, p.MirostatTau, p.MirostatEta = 2, 5, 0.1 },
		func(p *sample.Params) { p.TopNSigma, p.Logprobs, p.TopLogprobs = 1, true, 2 },
		func(p *sample.Params) {},
		func(p *sample.Params) { p.Samplers = []string{"top_k", "temperature"}; p.TopK = 7 },
	}
	var want []string
	for _, device := range []bool{false, true} {
		e := onRef(t, device, lim, Options{})
		got := make([]collected, len(chains))
		var siblings collected
		for i, chain := range chains {
			r := greedy([]int32{5, 6, 7, int32(8 + i)}, 6+i)
			r.Params.Temperature, r.Params.Seed = 1.3, uint64(i+1)
			chain(&r.Params)
			r = got[i].into(r)
			var others []Request
			if i == 0 {
				s := siblings.into(greedy(r.Prompt, r.MaxTokens))
				s.Params = r.Params
				s.Params.Seed = 99
				others = append(others, s)
			}
			if err := e.Submit(context.Background(), r, others...); err != nil {
				t.Fatal(err)
			}
		}
		for e.admit(); len(e.queue.byID) > 0; {
			mustStep(t, e)
		}
		var all []string
		for i, g := range append(got, siblings) {
			if g.final.Err != nil || len(g.tokens) == 0 {
				t.Fatalf("request %d: %d tokens, %v", i, len(g.tokens), g.final.Err)
			}
			all = append(all, fmt.Sprint(g.tokens))
		}
		if want == nil {
			want = all
			continue
		}
		if !slices.Equal(all, want) {
			t.Errorf("tokens\n%q where the device samples\n%q where it does not", all, want)
		}
	}
}
