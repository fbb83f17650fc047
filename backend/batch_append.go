package backend

// StateOf is the page of a recurrent group with the state of a sequence that has the pages from seq × SeqPages on in others.
func (l Limits) StateOf(group, seq int) int32 {
	if l.Ranks < 2 {
		return int32(seq)
	}
	each := l.Pages / l.Ranks / l.SeqPages // sequences of a device
	return int32(seq/each*(l.GroupPages(group)/l.Ranks) + seq%each)
}

// AppendSeq adds the next tokens of a sequence of which past tokens are in the cache, for programs that run without an engine's account of
// pages: sequence seq has the pages from seq × SeqPages on in every cache group, and in recurrent ones the state of this number, counted on each device that has sequences of its own (Limits.StateOf). Reset has made a table for each
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
			t.States = append(t.States, lim.StateOf(group, seq))
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
