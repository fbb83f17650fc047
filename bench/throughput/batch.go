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
	for i, q := range s.Seqs {
		for p := q.Past; p < q.Past+q.New; p++ {
			t.Tokens = append(t.Tokens, int32(rnd.IntN(vocab)))
			t.Positions = append(t.Positions, int32(p))
		}
		if i < s.Logits {
			t.LogitsIndices = append(t.LogitsIndices, int32(len(t.Tokens)-1))
		}
		t.QStart = append(t.QStart, int32(len(t.Tokens)))
		t.KVLen = append(t.KVLen, int32(q.Past+q.New))
		t.RopeLen = append(t.RopeLen, int32(q.Past+q.New))
		for group := range t.Tables {
			fillTable(&t.Tables[group], lim, group, i, q)
		}
	}
	fillAdapters(t, s)
}

// fillTable adds sequence i to the table of a cache group.
func fillTable(table *backend.Table, lim backend.Limits, group, i int, q graph.Seq) {
	if len(lim.Groups) > 0 && lim.Groups[group].Recurrent {
		table.States = append(table.States, int32(i))
		return
	}
	for p := q.Past; p < q.Past+q.New; p++ {
		table.Slots = append(table.Slots, int32(i*lim.SeqPages*lim.PageSize+p))
	}
	for p := range lim.SeqPages {
		table.Pages = append(table.Pages, int32(i*lim.SeqPages+p))
	}
}
