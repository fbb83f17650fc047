package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
)

// TestChainedNeedsHost: llama.cpp's own samplers are refused by name where the device samples, and done elsewhere.
func TestChainedNeedsHost(t *testing.T) {
	lim := backend.Limits{Tokens: 64, Seqs: 2, Logits: 2, PageSize: 4, SeqPages: 32, Pages: 64}
	for _, device := range []bool{true, false} {
		e := onRef(t, device, lim, Options{})
		var got collected
		r := greedy([]int32{5, 6, 7}, 4)
		r.Params.XTCProbability = 0.5
		err := e.Submit(context.Background(), got.into(r))
		if device {
			if err == nil || !strings.HasPrefix(err.Error(), "xtc_probability ") && !strings.Contains(err.Error(), ": xtc_probability ") {
				t.Fatal(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for e.admit(); len(e.queue.byID) > 0; {
			mustStep(t, e)
		}
		if len(got.tokens) != 4 || got.final.Err != nil {
			t.Fatalf("%d tokens, %v", len(got.tokens), got.final.Err)
		}
	}
}
