package sample

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Stop says when an answer is finished.
type Stop struct {
	Strings   []string // the answer ends where one of these has been completed; empty strings are refused
	Tokens    []int32  // the answer ends at one of these, the model's end-of-sequence tokens among them
	MaxTokens int      // the answer ends after so many tokens, counting a stop token; ≥ 1
	Include   bool     // send the stop string or the stop token's text too
}

// Reason is why an answer ended, in OpenAI's words; empty while it goes on.
type Reason string

const (
	ReasonStop   Reason = "stop"   // a stop string or token, or the model's end of sequence
	ReasonLength Reason = "length" // MaxTokens
)

// Piece is what one token adds to the answer that the client sees.
type Piece struct {
	Text   string // may be empty: text is held back while it may yet become a stop string
	Reason Reason
	Match  string // the stop string that ended the answer, if one did
}

// Limits on what a request may ask to be looked for: they bound the work per byte of answer.
const (
	MaxStopStrings = 64
	maxStopBytes   = 4096 // in one string
)

// Validate returns a sentence naming what is wrong.
func (s *Stop) Validate() error {
	if s.MaxTokens < 1 {
		return fmt.Errorf("sample: max_tokens is %d; it must be 1 or more", s.MaxTokens)
	}
	if len(s.Strings) > MaxStopStrings {
		return fmt.Errorf("sample: stop has %d strings; at most %d are looked for", len(s.Strings), MaxStopStrings)
	}
	for i, text := range s.Strings {
		switch {
		case text == "":
			return fmt.Errorf("sample: stop string %d is empty; an empty text occurs everywhere", i)
		case len(text) > maxStopBytes:
			return fmt.Errorf("sample: stop string %d is %d bytes long; at most %d are looked for", i, len(text), maxStopBytes)
		case !utf8.ValidString(text):
			return fmt.Errorf("sample: stop string %d is not valid UTF-8", i)
		}
	}
	return nil
}

// Stopper watches one answer. It finds the stop string that is completed first (of two completed by the same byte,
// the longer), wherever the borders between tokens fall, and never sends a part of it.
type Stopper struct {
	stop     Stop
	watchers []watcher
	held     []byte // received and not sent: it is the beginning of a stop string
	tokens   int
}

// NewStopper checks stop and returns the Stopper of an answer that has not begun.
func NewStopper(stop Stop) (*Stopper, error) {
	if err := stop.Validate(); err != nil {
		return nil, err
	}
	s := &Stopper{stop: stop}
	for _, text := range stop.Strings {
		s.watchers = append(s.watchers, newWatcher(text))
	}
	return s, nil
}

// Push takes the answer's next token and the text that it completed (whole UTF-8 characters; empty while a character
// is incomplete). It returns the text to send and, with the last token, the reason. After that it is not called again.
func (s *Stopper) Push(token int32, text string) Piece {
	s.tokens++
	ended := slices.Contains(s.stop.Tokens, token)
	if ended && !s.stop.Include {
		text = ""
	}
	if piece, found := s.scan(text); found {
		return piece
	}
	switch {
	case ended:
		return Piece{Text: s.Flush(), Reason: ReasonStop}
	case s.tokens >= s.stop.MaxTokens:
		return Piece{Text: s.Flush(), Reason: ReasonLength}
	}
	return Piece{Text: s.release(text)}
}

// Flush returns the text that is still held back, for an answer that ends for a reason of the caller's.
func (s *Stopper) Flush() string {
	text := string(s.held)
	s.held = s.held[:0]
	return text
}

// scan adds text to what is held and looks for a stop string in it.
func (s *Stopper) scan(text string) (Piece, bool) {
	if len(s.watchers) == 0 && text == "" {
		return Piece{}, false
	}
	before := len(s.held)
	s.held = append(s.held, text...)
	for i := range len(text) {
		found := ""
		for w := range s.watchers {
			if s.watchers[w].next(text[i]) && len(s.watchers[w].text) > len(found) {
				found = s.watchers[w].text
			}
		}
		if found != "" {
			end := before + i + 1
			if !s.stop.Include {
				end -= len(found)
			}
			return Piece{Text: string(s.held[:end]), Reason: ReasonStop, Match: found}, true
		}
	}
	return Piece{}, false
}

// release returns what is held except the longest end of it that begins a stop string. latest is the newest part of
// what is held; when that is all there is to send, it is sent without a copy.
func (s *Stopper) release(latest string) string {
	keep := 0
	for w := range s.watchers {
		keep = max(keep, s.watchers[w].matched)
	}
	send := len(s.held) - keep
	text := ""
	if send == len(latest) && keep == 0 {
		text = latest
	} else {
		text = string(s.held[:send])
	}
	s.held = append(s.held[:0], s.held[send:]...)
	return text
}

// watcher follows one stop string through a text, byte by byte, by Knuth, Morris and Pratt: matched is the length of
// the longest end of the text so far that begins the string.
type watcher struct {
	text    string
	matched int
	shorter []int // shorter[n]: the longest proper end of text[:n] that begins text
}

func newWatcher(text string) watcher {
	shorter := make([]int, len(text)+1)
	for n, k := 1, 0; n < len(text); n++ {
		for k > 0 && text[n] != text[k] {
			k = shorter[k]
		}
		if text[n] == text[k] {
			k++
		}
		shorter[n+1] = k
	}
	return watcher{text: text, shorter: shorter}
}

// next takes one byte and reports whether it completed the string.
func (w *watcher) next(b byte) bool {
	for w.matched > 0 && (w.matched == len(w.text) || w.text[w.matched] != b) {
		w.matched = w.shorter[w.matched]
	}
	if w.text[w.matched] == b {
		w.matched++
	}
	return w.matched == len(w.text)
}
