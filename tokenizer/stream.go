package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A Stream decodes ids one at a time. What Push and Flush return, joined, is the text Decode gives, except that bytes
// which turn out not to be UTF-8 do not take back runes already given, and that spaces are never cleaned up
// (clean_up_tokenization_spaces would spoil code). Push never returns part of a rune. A Stream serves one goroutine.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool

	begun     bool   // a token has been seen
	pending   []byte // the start of a rune
	stripping int    // copies of the front strip's rune that may still go

	window []string // for decoders that are no pieceDecoder: tokens whose text is given together …
	given  string   // … and what of it has been given already
	keep   int      // tokens of window that given is the text of
}

// NewStream starts a text. With skipSpecial, special tokens give nothing.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	s := &Stream{t: t, skipSpecial: skipSpecial}
	if t.steps != nil {
		s.stripping = t.steps.front.start
	}
	return s
}

// Push takes the next id and returns the text that is certain now, often a word, sometimes nothing.
func (s *Stream) Push(id int32) string {
	token, ok := s.t.decoderInput(id, s.skipSpecial)
	if !ok {
		return ""
	}
	p := s.t.steps
	if p == nil {
		return s.pushWindow(token)
	}
	first := !s.begun
	s.begun = true
	if p.reading == fallbackBytes {
		return s.pushFallback(token, first)
	}
	s.pending = p.bytes(s.pending, token, first)
	n := len(s.pending) - incompleteSuffix(s.pending)
	return s.give(string(appendLossy(nil, s.take(n))))
}

// pushFallback keeps bytes of <0xNN> tokens apart from those of other tokens: a rune never spans both.
func (s *Stream) pushFallback(token string, first bool) string {
	before := len(s.pending)
	s.pending = s.t.steps.bytes(s.pending, token, first)
	if _, ok := byteToken(token); ok {
		n := len(s.pending) - incompleteSuffix(s.pending)
		return s.give(replaceBytes(s.take(n)))
	}
	return s.give(replaceBytes(s.take(before)) + string(s.take(len(s.pending))))
}

// Flush ends the text and returns what is left of it: U+FFFD for a rune that was never finished.
func (s *Stream) Flush() string {
	if s.t.steps == nil {
		text := s.t.decodeTokens(s.window)
		rest := text[sharedStart(text, s.given):]
		s.window, s.given, s.keep = nil, "", 0
		return rest
	}
	if rest := s.take(len(s.pending)); s.t.steps.reading == fallbackBytes {
		return s.give(replaceBytes(rest))
	} else {
		return s.give(string(appendLossy(nil, rest)))
	}
}

// take removes the first n bytes of pending and returns them.
func (s *Stream) take(n int) []byte {
	out := append([]byte(nil), s.pending[:n]...)
	s.pending = append(s.pending[:0], s.pending[n:]...)
	return out
}

// give applies the front strip.
func (s *Stream) give(text string) string {
	for s.stripping > 0 && text != "" {
		rest, ok := strings.CutPrefix(text, string(s.t.steps.front.content))
		if !ok {
			s.stripping = 0
			break
		}
		s.stripping--
		text = rest
	}
	return text
}

// replaceBytes makes text of b with U+FFFD for each byte that is not part of a valid rune.
func replaceBytes(b []byte) string { return string([]rune(string(b))) }

// pushWindow decodes the latest tokens together, so that each gets the text it has next to its neighbours.
func (s *Stream) pushWindow(token string) string {
	s.window = append(s.window, token)
	text := s.t.decodeTokens(s.window)
	if len(text) <= len(s.given) || strings.HasSuffix(text, replacement) {
		return ""
	}
	fresh := text[sharedStart(text, s.given):]
	s.window = append([]string(nil), s.window[s.keep:]...)
	s.given = s.t.decodeTokens(s.window)
	s.keep = len(s.window)
	return fresh
}

// sharedStart is the length of the longest common start of a and b that is whole runes of a.
func sharedStart(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return n
}
