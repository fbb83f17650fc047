package tokenizer

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// A matcher finds the places in a text at which a splitter cuts.
type matcher interface {
	// matches calls yield with the byte range of each match in s, left to right, until yield returns false.
	matches(s string, yield func(start, end int) bool) error
}

// tilerMatcher makes a matcher of a tiler.
type tilerMatcher struct{ tiler }

func (m tilerMatcher) matches(s string, yield func(start, end int) bool) error {
	for i := 0; i < len(s); {
		end := m.next(s, i)
		if !yield(i, end) {
			return nil
		}
		i = end
	}
	return nil
}

// literal matches a fixed text.
type literal string

func (l literal) matches(s string, yield func(start, end int) bool) error {
	if l == "" {
		return nil
	}
	for i := 0; ; {
		j := strings.Index(s[i:], string(l))
		if j < 0 {
			return nil
		}
		if !yield(i+j, i+j+len(l)) {
			return nil
		}
		i += j + len(l)
	}
}

// runeMatcher matches every rune for which it holds.
type runeMatcher func(rune) bool

func (m runeMatcher) matches(s string, yield func(start, end int) bool) error {
	for i, r := range s {
		if m(r) && !yield(i, i+utf8.RuneLen(r)) {
			return nil
		}
	}
	return nil
}

// classRuns matches runs of runes of one class, cut every most runes.
type classRuns struct {
	cl    *classTable
	class runeClass
	most  int
}

func (m classRuns) matches(s string, yield func(start, end int) bool) error {
	for i := 0; i < len(s); {
		c, n := m.cl.at(s, i)
		if c&m.class == 0 {
			i += n
			continue
		}
		end := m.cl.upTo(s, i, m.class, m.most)
		if !yield(i, end) {
			return nil
		}
		i = end
	}
	return nil
}

func numbers(most int) classRuns { return classRuns{classes(), classNumber, most} }

// spaceAtLineEnd matches \s+$, for which a backtracking engine takes quadratic time: in each run of white space, all of it
// at the end of the text, otherwise what is before its last newline.
type spaceAtLineEnd struct{ cl *classTable }

func (m spaceAtLineEnd) matches(s string, yield func(start, end int) bool) error {
	for i := 0; i < len(s); {
		c, n := m.cl.at(s, i)
		if c&classSpace == 0 {
			i += n
			continue
		}
		end := m.cl.run(s, i, classSpace)
		match := end
		if end < len(s) {
			match = i + max(0, strings.LastIndexByte(s[i:end], '\n'))
		}
		if match > i && !yield(i, match) {
			return nil
		}
		i = end
	}
	return nil
}

// compilePattern returns the matcher of a regular expression: hand-written where the pattern is known.
func compilePattern(pattern string) (matcher, error) {
	if t := knownTiler(pattern); t != nil {
		return tilerMatcher{t}, nil
	}
	switch pattern {
	case patternNumber:
		return numbers(1), nil
	case patternNumbers3:
		return numbers(3), nil
	case patternNumbers:
		return numbers(math.MaxInt), nil
	case patternSpaceAtEnd:
		return spaceAtLineEnd{classes()}, nil
	}
	return compileRegexp(pattern)
}

// A behavior says what is done with the matches of a splitter.
type behavior int

const (
	removed            behavior = iota // they go
	isolated                           // each is a word of its own
	mergedWithPrevious                 // each joins the text before it
	mergedWithNext                     // each joins the text after it
	contiguous                         // runs of them are words
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
	// the spelling of files that another program has written
	"removed": removed, "isolated": isolated, "merged_with_previous": mergedWithPrevious,
	"merged_with_next": mergedWithNext, "contiguous": contiguous,
}

func parseBehavior(name string) (behavior, error) {
	b, ok := behaviors[name]
	if !ok {
		return 0, fmt.Errorf("tokenizer: unknown split behavior %q; use Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", name)
	}
	return b, nil
}

// split cuts text at matches.
type split struct {
	matcher  matcher
	behavior behavior
	invert   bool // the text between matches counts as the matches
}

func (s split) cut(p piece, emit func(piece) bool) error {
	if t, ok := s.matcher.(tilerMatcher); ok && (s.behavior == isolated || s.behavior == removed && s.invert) {
		for i := 0; i < len(p.text); { // the common case, without the bookkeeping: there is nothing between matches
			end := t.next(p.text, i)
			if !emit(p.sub(i, end)) {
				return nil
			}
			i = end
		}
		return nil
	}
	j := joiner{behavior: s.behavior, piece: p, emit: emit}
	done := 0
	err := s.matcher.matches(p.text, func(start, end int) bool {
		if start > done {
			j.add(done, start, s.invert)
		}
		j.add(start, end, !s.invert)
		done = end
		return !j.enough
	})
	if err != nil || j.enough {
		return err
	}
	if done < len(p.text) {
		j.add(done, len(p.text), s.invert)
	}
	j.flush()
	return nil
}

// joiner takes consecutive ranges of a piece, each a match or not, and emits the words that a behavior makes of them.
type joiner struct {
	behavior   behavior
	piece      piece
	emit       func(piece) bool
	start, end int  // the word that may still grow
	match      bool // the range before was a match
	held       bool // there is such a word
	enough     bool // emit wants no more
}

func (j *joiner) add(start, end int, match bool) {
	join := false
	switch j.behavior {
	case removed:
		if match {
			return
		}
	case mergedWithPrevious:
		join = match && !j.match
	case mergedWithNext:
		join = !match && j.match
	case contiguous:
		join = match == j.match
	}
	j.match = match
	if join && j.held {
		j.end = end
		return
	}
	j.flush()
	j.start, j.end, j.held = start, end, true
}

func (j *joiner) flush() {
	if j.held && j.end > j.start && !j.enough {
		j.enough = !j.emit(j.piece.sub(j.start, j.end))
	}
	j.held = false
}
