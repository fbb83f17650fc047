package throughput

import (
	"math/rand/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// FillBatch writes the batch of a step, with random tokens of a vocabulary: sequence i has the pages from i × SeqPages on, and
// the first sequences want logits.
func FillBatch(t *backend.Batch, lim backend.Limits, s *graph.Step, vocab int, rnd *rand.Rand) {
	t.Tokens, t.Positions, t.Slots, t.LogitsIndices = t.Tokens[:0], t.Positions[:0], t.Slots[:0], t.LogitsIndices[:0]
	t.QStart, t.KVLen, t.RopeLen, t.Pages = append(t.QStart[:0], 0), t.KVLen[:0], t.RopeLen[:0], t.Pages[:0]
	t.SeqPages = lim.SeqPages
	for i, q := range s.Seqs {
		for p := q.Past; p < q.Past+q.New; p++ {
			t.Tokens = append(t.Tokens, int32(rnd.IntN(vocab)))
			t.Positions = append(t.Positions, int32(p))
			t.Slots = append(t.Slots, int32(i*lim.SeqPages*lim.PageSize+p))
		}
		if i < s.Logits {
			t.LogitsIndices = append(t.LogitsIndices, int32(len(t.Tokens)-1))
		}
		t.QStart = append(t.QStart, int32(len(t.Tokens)))
		t.KVLen = append(t.KVLen, int32(q.Past+q.New))
		t.RopeLen = append(t.RopeLen, int32(q.Past+q.New))
		for p := range lim.SeqPages {
			t.Pages = append(t.Pages, int32(i*lim.SeqPages+p))
		}
	}
}
