package capacity_test

import (
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price/capacity"
)

// TestStates: a sequence of Qwen3.5-0.8B has 18 states of 16 × 128 × 128 numbers and of the last three inputs of its convolutions, and beside it keys and
// values of six layers for each token.
func TestStates(t *testing.T) {
	m := capacity.MemoryOf(build(t, "qwen3.5-0.8b", "BF16", graph.BF16), 512, 8)
	if want := int64(18 * 4 * (16*128*128 + 3*6144)); m.State != want {
		t.Errorf("a sequence's state takes %d bytes, and %d is right", m.State, want)
	}
	if want := int64(6 * 2 * 2 * 256 * 2); m.CacheToken != want {
		t.Errorf("a token takes %d bytes, and %d is right", m.CacheToken, want)
	}
	if m := capacity.MemoryOf(build(t, "gemma-3n-e2b", "BF16", graph.BF16), 512, 8); m.Host != 262144*30*256*2 || m.Weights > 7<<30 {
		t.Errorf("of Gemma 3n E2B %d bytes of tables are in the host's memory, and %d of weights on the device", m.Host, m.Weights)
	}
	if m := capacity.MemoryOf(build(t, "llama-3.2-1b", "BF16", graph.BF16), 512, 8); m.State != 0 {
		t.Errorf("a model without recurrent layers has a state of %d bytes", m.State)
	}
}
