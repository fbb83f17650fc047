package throughput

import (
	"math/rand/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// FillBatch writes the batch of a step, with random tokens of a vocabulary: sequence i has the pages from i × SeqPages on and state i, and
// the first sequences want logits.
func FillBatch(t *backend.Batch, lim backend.Limits, s *graph.Step, vocab int, rnd *rand.Rand) {
	t.Reset(max(1, len(lim.Groups)), lim.SeqPages)
	var tokens []int32
	for i, q := range s.Seqs {
		tokens = tokens[:0]
		for range q.New {
			tokens = append(tokens, int32(rnd.IntN(vocab)))
		}
		t.AppendSeq(lim, i, q.Past, tokens)
		if i < s.Logits {
			t.LogitsIndices = append(t.LogitsIndices, int32(len(t.Tokens)-1))
		}
	}
	fillAdapters(t, s)
}
