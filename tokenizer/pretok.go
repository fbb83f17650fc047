package tokenizer

// A piece is a part of the text on its way to the model.
type piece struct {
	text  string
	first bool // it starts at the first byte of the whole text
}

// sub returns p.text[start:end] as a piece.
func (p piece) sub(start, end int) piece {
	return piece{p.text[start:end], p.first && start == 0}
}

// A preTokenizer cuts a piece into words and calls emit for each that is not empty, in order, until emit returns false. It may
// rewrite text on the way.
type preTokenizer interface {
	cut(p piece, emit func(piece) bool) error
}

// preTokenizers applies several: each cuts the words of the one before.
type preTokenizers []preTokenizer

func (ps preTokenizers) cut(p piece, emit func(piece) bool) error {
	switch len(ps) {
	case 0:
		emit(p)
		return nil
	case 1:
		return ps[0].cut(p, emit)
	}
	var inner error
	more := true
	last := func(q piece) bool {
		more = emit(q)
		return more
	}
	err := ps[0].cut(p, func(q piece) bool {
		inner = ps[1:].cut(q, last)
		return more && inner == nil
	})
	if err != nil {
		return err
	}
	return inner
}

// byteLevel is GPT-2's pre-tokenizer.
type byteLevel struct {
	prefixSpace bool  // put a space before text that does not start with one
	tiler       tiler // nil: do not cut
	spell       bool  // spell words in the byte alphabet; the loader clears it where the model takes bytes
}

func (b byteLevel) cut(p piece, emit func(piece) bool) error {
	if b.prefixSpace && p.text[0] != ' ' {
		p.text = " " + p.text
	}
	end := len(p.text)
	for i := 0; i < len(p.text); i = end {
		if b.tiler != nil {
			end = b.tiler.next(p.text, i)
		}
		w := p.sub(i, end)
		if b.spell {
			w.text = toAlphabet(w.text)
		}
		if !emit(w) {
			return nil
		}
	}
	return nil
}
