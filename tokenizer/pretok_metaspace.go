package tokenizer

import (
	"strings"
)

// A prependScheme says which pieces get a leading ▁.
type prependScheme int

const (
	prependAlways prependScheme = iota
	prependFirst                // only the piece that the text starts with
	prependNever
)

// metaspacer is SentencePiece's view of words: spaces become ▁, and a word starts at each.
type metaspacer struct {
	mark   string // ▁, or what the file has instead
	scheme prependScheme
	split  bool
}

func (m metaspacer) cut(p piece, emit func(piece) bool) error {
	p.text = strings.ReplaceAll(p.text, " ", m.mark)
	if (m.scheme == prependAlways || m.scheme == prependFirst && p.first) && !strings.HasPrefix(p.text, m.mark) {
		p.text = m.mark + p.text
	}
	if !m.split {
		emit(p)
		return nil
	}
	return split{matcher: literal(m.mark), behavior: mergedWithNext}.cut(p, emit)
}
