package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// wrap writes text to a terminal without breaking words at its edge. Lines of code, between ```, stay as they are. It holds no text back: a word that turns out not to fit is
// taken from the end of the line and written on the next.
type wrap struct {
	out     io.Writer
	columns int // of the terminal but its last; few: nothing is wrapped
	column  int // of the cursor
	word    strings.Builder
	wide    int    // columns of word
	line    string // the beginning of the line, as far as it can be ```
	code    bool
}

// newWrap is a wrap as wide as the terminal.
func newWrap(f *os.File) *wrap {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		columns = 0
	}
	return &wrap{out: f, columns: columns - 1} // in its last column a terminal waits for the next character before it goes to the next line
}

// fold breaks lines of a text that is known, between words, where a terminal of so many columns would break them anywhere. What goes on begins below the second column of a list, which two spaces or more precede, or
// below the line. Few columns, or 0, which is no terminal: it stays as it is.
func fold(text string, columns int) string {
	if columns < 40 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\n")
		first := len(body) - len(strings.TrimLeft(body, " "))
		indent := first
		if i := strings.Index(body[first:], "  "); i >= 0 {
			rest := body[first+i:]
			if at := first + i + len(rest) - len(strings.TrimLeft(rest, " ")); at < columns/2 {
				indent = at
			}
		}
		for len(body) >= columns {
			at := strings.LastIndexByte(body[:columns], ' ')
			if at <= indent {
				break // one long word
			}
			b.WriteString(strings.TrimRight(body[:at], " ") + "\n")
			body = strings.Repeat(" ", indent) + strings.TrimLeft(body[at:], " ")
		}
		b.WriteString(body + line[len(strings.TrimRight(line, "\n")):])
	}
	return b.String()
}

// foldFor is fold for what a file is: a terminal, or none.
func foldFor(f *os.File, text string) string {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return text
	}
	return fold(text, columns)
}

const fence = "```"

// Write implements io.Writer. Text comes in whole characters.
func (w *wrap) Write(p []byte) (int, error) {
	if w.columns < 20 {
		return w.out.Write(p)
	}
	var b strings.Builder
	for _, r := range string(p) {
		w.rune(&b, r)
	}
	if _, err := io.WriteString(w.out, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *wrap) rune(b *strings.Builder, r rune) {
	if r == '\n' {
		if strings.HasPrefix(w.line, fence) {
			w.code = !w.code
		}
		b.WriteRune(r)
		w.column, w.wide, w.line = 0, 0, ""
		w.word.Reset()
		return
	}
	if len(w.line) < len(fence) {
		w.line += string(r)
	}
	n := columnsOf(r)
	switch {
	case w.code:
	case unicode.IsSpace(r):
		w.word.Reset()
		if w.wide = 0; w.column+n > w.columns+1 { // the space at the edge is the line's end
			b.WriteByte('\n')
			w.column, w.line = 0, ""
			return
		}
	default:
		if w.column+n > w.columns && w.wide < w.column {
			b.WriteString(strings.Repeat("\b", w.wide) + "\x1b[K\n" + w.word.String()) // back over the word, which goes to the next line
			w.column = w.wide
		}
		w.word.WriteRune(r)
		w.wide += n
	}
	b.WriteRune(r)
	if w.column += n; w.column > w.columns+1 { // longer than a line: the terminal has broken it
		w.column = n
		w.word.Reset()
		w.wide = n
	}
}

// columnsOf is how many columns of a terminal a character takes.
func columnsOf(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}
