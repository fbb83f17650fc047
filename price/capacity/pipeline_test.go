package capacity_test

import (
	"testing"

	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price/capacity"
)

// TestPipelinePrice: two stages read a long prompt in not much more than half the time of one, since it goes through them in pieces; one sequence leaves each waiting half of the time, and many
// hardly at all.
func TestPipelinePrice(t *testing.T) {
	one, two := setup(t, "llama-3.1-8b", "", "h200", tensor(1), 0.9), setup(t, "llama-3.1-8b", "", "h200", pass.Layout{Tensor: 1, Pipeline: 2, Data: 1}, 0.9)
	for _, w := range []capacity.Workload{{Input: 2048, Output: 1000}, {Input: 8192, Output: 1000}} {
		a, b := one.Estimate(w, 1), two.Estimate(w, 1)
		if ratio := (a.TTFT - a.ITL/2) / (b.TTFT - b.ITL/2); ratio < 1.3 || ratio > 2 {
			t.Errorf("a prompt of %d tokens is read %.2f times as fast by two stages", w.Input, ratio)
		}
		if a.PromptBubble != 0 || b.PromptBubble <= 0 || b.PromptBubble > 0.35 {
			t.Errorf("of a prompt of %d tokens bubbles are %.2f of two stages and %.2f of one", w.Input, b.PromptBubble, a.PromptBubble)
		}
		if b.Bubble < 0.45 || b.Bubble > 0.56 || a.Bubble != 0 {
			t.Errorf("one sequence leaves %.2f of two stages waiting and %.2f of one", b.Bubble, a.Bubble)
		}
		if many := two.Estimate(w, 64); many.Bubble < 0 || many.Bubble > 0.2 {
			t.Errorf("64 sequences leave %.2f of two stages waiting", many.Bubble)
		}
	}
}
