package backend

// AppendSeq adds the next tokens of a sequence of which past tokens are in the cache, for programs that run without an engine's account of
// pages: sequence seq has the pages from seq × SeqPages on in every cache group, and state seq in recurrent ones. Reset has made a table for each
// group of lim, or one. Which rows' logits are wanted is left to the caller.
func (b *Batch) AppendSeq(lim Limits, seq, past int, tokens []int32) {
	for i, id := range tokens {
		b.Tokens, b.Positions = append(b.Tokens, id), append(b.Positions, int32(past+i))
	}
	end := past + len(tokens)
	b.QStart = append(b.QStart, int32(len(b.Tokens)))
	b.KVLen, b.RopeLen = append(b.KVLen, int32(end)), append(b.RopeLen, int32(end))
	for group := range b.Tables {
		t := &b.Tables[group]
		if len(lim.Groups) > 0 && lim.Groups[group].Recurrent {
			t.States = append(t.States, int32(seq))
			continue
		}
		for p := past; p < end; p++ {
			t.Slots = append(t.Slots, int32(seq*lim.SeqPages*lim.PageSize+p))
		}
		for p := range lim.SeqPages {
			t.Pages = append(t.Pages, int32(seq*lim.SeqPages+p))
		}
	}
}
