package bench

import "github.com/ridge-llm/ridge/graph"

// step runs one step on random tokens and reads its logits, as sampling would.
func (b *Bench) step(s *graph.Step) error {
	b.lay(s)
	if err := b.prog.Run(&b.batch); err != nil {
		return err
	}
	return b.prog.Logits(b.logits, 0, s.Logits)
}

// lay writes the batch of a step: sequence i has the pages from i × SeqPages on.
func (b *Bench) lay(s *graph.Step) {
	lim, t := b.prog.Limits, &b.batch
	t.Tokens, t.Positions, t.Slots, t.Picked = t.Tokens[:0], t.Positions[:0], t.Slots[:0], t.Picked[:0]
	t.QStart, t.KVLen, t.RopeLen, t.Pages = append(t.QStart[:0], 0), t.KVLen[:0], t.RopeLen[:0], t.Pages[:0]
	t.SeqPages = lim.SeqPages
	for i, q := range s.Seqs {
		for p := q.Past; p < q.Past+q.New; p++ {
			t.Tokens = append(t.Tokens, int32(b.rnd.IntN(b.vocab)))
			t.Positions = append(t.Positions, int32(p))
			t.Slots = append(t.Slots, int32(i*lim.SeqPages*lim.PageSize+p))
		}
		if i < s.Logits {
			t.Picked = append(t.Picked, int32(len(t.Tokens)-1))
		}
		t.QStart = append(t.QStart, int32(len(t.Tokens)))
		t.KVLen = append(t.KVLen, int32(q.Past+q.New))
		t.RopeLen = append(t.RopeLen, int32(q.Past+q.New))
		for p := range lim.SeqPages {
			t.Pages = append(t.Pages, int32(i*lim.SeqPages+p))
		}
	}
}

// fill sees to it that the first sequences have real keys and values of depth tokens: sequence 0 computes them, and the
// others get a copy of its pages, which are their own to read.
func (b *Bench) fill(depth, sequences int) error {
	if depth == 0 {
		return nil
	}
	for b.filled < depth {
		n := min(b.chunk, depth-b.filled)
		if err := b.step(&graph.Step{Seqs: []graph.Seq{{New: n, Past: b.filled}}, Logits: 1}); err != nil {
			return err
		}
		b.filled += n
	}
	pages := (depth + pageSize - 1) / pageSize
	for s := 1; s < sequences; s++ {
		for p := range pages {
			if err := b.prog.CopyPage(int32(p), int32(s*b.prog.Limits.SeqPages+p)); err != nil {
				return err
			}
		}
	}
	return nil
}
