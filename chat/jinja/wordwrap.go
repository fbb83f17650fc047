package jinja

import (
	"strings"
	"unicode"
)

// filterWordWrap wraps each line of a text as Python's textwrap does.
func filterWordWrap(r *render, value any, a args) (any, error) {
	got, err := a.bind("wordwrap", 0, "width", "break_long_words", "wrapstring", "break_on_hyphens")
	if err != nil {
		return nil, err
	}
	s, ok := text(value)
	if u, undef := value.(*undefined); undef {
		return nil, u.fail()
	}
	if !ok {
		return nil, fail("wordwrap needs a str, not %s", typeName(value))
	}
	w := &wrapper{breakWords: got[1] == missing || truth(got[1]), breakHyphens: got[3] == missing || truth(got[3])}
	if w.width, err = integerOr(got[0], 79); err != nil {
		return nil, err
	}
	newline := "\n"
	if got[2] != missing && got[2] != nil {
		if newline, ok = text(got[2]); !ok {
			return nil, fail("wordwrap needs a str as wrapstring, not %s", typeName(got[2]))
		}
	}
	if err := r.growTimes(len(s), 8); err != nil {
		return nil, err
	}
	var out []string
	for _, line := range splitLines(s, false) {
		if w.width <= 0 {
			return nil, fail("invalid width %d (must be > 0)", w.width)
		}
		out = append(out, strings.Join(w.wrap(line), newline))
	}
	return r.join(out, newline)
}

type wrapper struct {
	width                    int // in characters
	breakWords, breakHyphens bool
}

// wrap cuts a line into lines that fit. Lengths are in characters.
func (w *wrapper) wrap(s string) []string {
	var chunks [][]rune
	runes := []rune(s)
	for i := 0; i < len(runes); {
		n := w.chunk(runes, i)
		chunks = append(chunks, runes[i:i+n])
		i += n
	}
	var lines []string
	for i := 0; i < len(chunks); {
		if len(lines) > 0 && isBlank(chunks[i]) {
			i++
		}
		var line [][]rune
		length := 0
		for i < len(chunks) && length+len(chunks[i]) <= w.width {
			length += len(chunks[i])
			line = append(line, chunks[i])
			i++
		}
		if i < len(chunks) && len(chunks[i]) > w.width {
			if w.breakWords {
				n := w.breakAt(chunks[i], w.width-length)
				line = append(line, chunks[i][:n])
				chunks[i] = chunks[i][n:]
			} else if len(line) == 0 {
				line = append(line, chunks[i])
				i++
			}
		}
		if n := len(line); n > 0 && isBlank(line[n-1]) {
			line = line[:n-1]
		}
		if len(line) > 0 {
			var b strings.Builder
			for _, chunk := range line {
				b.WriteString(string(chunk))
			}
			lines = append(lines, b.String())
		}
	}
	return lines
}

func isBlank(chunk []rune) bool { return strings.TrimFunc(string(chunk), isSpace) == "" }

// breakAt says how much of a word that is too long goes onto a line with so much room: up to its last hyphen there.
func (w *wrapper) breakAt(word []rune, room int) int {
	if w.breakHyphens && len(word) > room {
		for i := room - 1; i > 0; i-- {
			if word[i] == '-' {
				if strings.Trim(string(word[:i]), "-") != "" {
					return i + 1
				}
				break
			}
		}
	}
	return room
}

// chunk measures what textwrap's pattern takes at s[from:]: white space, a dash between words, or a word or the part
// of one up to a hyphen.
func (w *wrapper) chunk(s []rune, from int) int {
	space := func(i int) bool { return i < len(s) && strings.ContainsRune("\t\n\v\f\r ", s[i]) }
	if space(from) {
		n := 1
		for space(from + n) {
			n++
		}
		return n
	}
	if n := dashes(s, from); w.breakHyphens && n > 0 {
		return n
	}
	for i := from + 1; ; i++ {
		switch {
		case i == len(s) || space(i):
			return i - from
		case !w.breakHyphens:
		case afterHyphen(s, i):
			return i + 1 - from
		case dashes(s, i) > 0:
			return i - from
		}
	}
}

// dashes measures a dash of two or more hyphens at s[i:] that stands between words.
func dashes(s []rune, i int) int {
	n := 0
	for i+n < len(s) && s[i+n] == '-' {
		n++
	}
	between := i > 0 && (isWord(s[i-1]) || strings.ContainsRune(`!"'&.,?`, s[i-1])) && i+n < len(s) && isWord(s[i+n])
	if n < 2 || !between {
		return 0
	}
	return n
}

// afterHyphen reports whether s[i] is a hyphen in a word behind which it may be broken.
func afterHyphen(s []rune, i int) bool {
	letter := func(i int) bool { return i >= 0 && i < len(s) && isWord(s[i]) && !unicode.Is(unicode.Nd, s[i]) }
	if s[i] != '-' {
		return false
	}
	inWord := letter(i-2) && letter(i-1) ||
		letter(i-3) && s[i-2] == '-' && (isWord(s[i-1]) || strings.ContainsRune(`!"'&.,?`, s[i-1]))
	return inWord && letter(i+1) && (letter(i+2) || i+2 < len(s) && s[i+2] == '-' && letter(i+3))
}
