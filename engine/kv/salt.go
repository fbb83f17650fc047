package kv

// Salt tells apart sequences that must not share: give every tenant, and every adapter, a number of its own. An adapter that acts from a
// token on (aLoRA) leaves the pages before it as they are without it: up to From, the sequence shares with those of the salt Before. What
// Own stands for then begins at From, so that it must be another number for another From.
type Salt struct {
	Own    uint64
	Before uint64
	From   int // tokens before it are of the salt Before
}

// page is the salt of a page whose tokens end before position end.
func (s Salt) page(end int) uint64 {
	if end <= s.From {
		return s.Before
	}
	return s.Own
}
