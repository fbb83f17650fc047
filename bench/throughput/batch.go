package throughput

import (
	"math/rand/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// placeOf is where a sequence lies: its pages begin at so many times SeqPages, and its state has this number. Where devices have sequences of their own, they get them in turn.
func placeOf(lim backend.Limits, seq int) int {
	if lim.Ranks < 2 {
		return seq
	}
	return seq%lim.Ranks*(lim.Pages/lim.Ranks/lim.SeqPages) + seq/lim.Ranks
}

// FillBatch writes the batch of a step, with random tokens of a vocabulary: sequence i has the pages and the state of place i, and
// the first sequences want logits.
func FillBatch(t *backend.Batch, lim backend.Limits, s *graph.Step, vocab int, rnd *rand.Rand) {
	t.Reset(max(1, len(lim.Groups)), lim.SeqPages)
	var tokens []int32
	for i, q := range s.Seqs {
		tokens = tokens[:0]
		for range q.New {
			tokens = append(tokens, int32(rnd.IntN(vocab)))
		}
		t.AppendSeq(lim, placeOf(lim, i), q.Past, tokens)
		if i < s.Logits {
			t.LogitsIndices = append(t.LogitsIndices, int32(len(t.Tokens)-1))
		}
	}
	fillAdapters(t, s)
}
