package tokenizer

import (
	"errors"
	"math"
	"slices"
	"strings"
)

// ErrMore is the error for a text of more than Options.Most tokens, of which the first so many are returned.
var ErrMore = errors.New("tokenizer: the text has more tokens than were asked for")

// Encode returns the ids of text. It fails only where the vocabulary cannot express the text and has no unknown token, or
// where a split pattern that is not one of the known ones gives up; or with ErrMore.
func (t *Tokenizer) Encode(text string, o Options) ([]int32, error) {
	room := len(text)/4 + 8
	if o.Most > 0 {
		room = min(room, o.Most+8)
	}
	return t.AppendEncode(make([]int32, 0, room), text, o)
}

// AppendEncode appends the ids of text to dst, and allocates nothing when there is room and the words are known.
func (t *Tokenizer) AppendEncode(dst []int32, text string, o Options) ([]int32, error) {
	e := t.encoders.Get().(*encoder)
	defer t.encoders.Put(e)
	e.out, e.special, e.mark, e.err = dst, o.ParseSpecial, o.Mark, nil
	e.room = math.MaxInt
	if o.Most > 0 {
		e.room = len(dst) + o.Most
	}
	text = validText(text)
	for _, part := range t.post {
		if part == nil {
			e.text(text)
		} else if o.Special {
			e.out = append(e.out, part...)
			e.more()
		}
	}
	if e.err == ErrMore {
		e.out = e.out[:e.room]
	}
	out, err := e.out, e.err
	e.out, e.raw, e.norm = nil, piece{}, piece{} // the pool must not keep the caller's memory alive
	return out, err
}

// encoder is the state of one Encode: one is in use by one goroutine at a time. Its methods are kept as values, so that
// handing them down the road does not allocate.
type encoder struct {
	t       *Tokenizer
	out     []int32
	err     error
	room    int    // that out may come to
	special bool   // recognise special tokens
	mark    string // left out of words
	raw     piece
	norm    piece
	scratch scratch

	onRaw, onNorm func(start, end int) bool
	onAdded       func(id int32) bool
	onWord        func(piece) bool
}

func newEncoder(t *Tokenizer) *encoder {
	e := &encoder{t: t}
	e.onRaw, e.onNorm, e.onAdded, e.onWord = e.rawText, e.normText, e.addedToken, e.word
	return e
}

// more reports whether to read on: there is no error, and no more in out than was asked for.
func (e *encoder) more() bool {
	if len(e.out) > e.room {
		e.fail(ErrMore)
	}
	return e.err == nil
}

// text takes a whole text: the added tokens in it as they are written, and what is between them to rawText.
func (e *encoder) text(s string) {
	e.raw = piece{s, true}
	e.t.added.split(e.t.added.raw, s, e.special, e.onRaw, e.onAdded)
}

// rawText normalises text between added tokens and looks for added tokens in what comes out.
func (e *encoder) rawText(start, end int) bool {
	e.norm = e.raw.sub(start, end)
	if e.t.norm != nil {
		if e.t.dropper != nil && e.norm.first {
			e.norm.first = !e.t.dropper.dropsStart(e.norm.text)
		}
		e.norm.text = e.t.norm.normalize(e.norm.text)
	}
	e.t.added.split(e.t.added.normalized, e.norm.text, e.special, e.onNorm, e.onAdded)
	return e.err == nil
}

// normText cuts normalised text into words.
func (e *encoder) normText(start, end int) bool {
	p := e.norm.sub(start, end)
	if e.mark == "" || !strings.Contains(p.text, e.mark) {
		e.words(p)
		return e.err == nil
	}
	before := len(e.out)
	e.words(piece{strings.ReplaceAll(p.text, e.mark, ""), p.first})
	if !slices.ContainsFunc(e.out[before:], e.t.IsSpecial) {
		return e.err == nil
	}
	if e.err == ErrMore {
		e.err = nil
	}
	// The vocabulary has a special token as an ordinary word too: what is on either side of a mark is read by itself.
	e.out = e.out[:before]
	for part := range strings.SplitSeq(p.text, e.mark) {
		e.words(piece{part, p.first})
		p.first = false
	}
	return e.err == nil
}

// words cuts text without marks into words.
func (e *encoder) words(p piece) {
	if e.err == nil && p.text != "" {
		e.fail(e.t.pre.cut(p, e.onWord))
	}
}

func (e *encoder) addedToken(id int32) bool {
	e.out = append(e.out, id)
	return e.more()
}

func (e *encoder) word(p piece) bool {
	for s := p.text; s != "" && e.more(); {
		n := e.t.cut.next(s)
		e.ids(s[:n])
		s = s[n:]
	}
	return e.more()
}

// ids appends the ids of a word, from memory if it has been seen lately.
func (e *encoder) ids(word string) {
	if len(word) > maxCachedWord {
		var err error
		e.out, err = e.t.model.appendIDs(e.out, word, &e.scratch)
		e.fail(err)
		return
	}
	ids, place := e.t.words.find(word)
	if place == nil {
		e.out = append(e.out, ids...)
		return
	}
	start := len(e.out)
	out, err := e.t.model.appendIDs(e.out, word, &e.scratch)
	e.out = out
	if err != nil {
		e.fail(err)
		return
	}
	store(place, word, out[start:])
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}
