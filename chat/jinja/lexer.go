package jinja

import (
	"strings"
	"unicode/utf8"
)

// lexer cuts a template into tokens. It has two modes: in text, until the next "{{", "{%" or "{#"; and inside a tag.
type lexer struct {
	src       string // newlines normalised to "\n"
	pos       int
	line      int
	lineStart bool // what precedes pos ends a line, or is the beginning of the template
	tokens    []token
}

// lex gives the tokens of a template, the last being tokEOF.
func lex(source string) ([]token, error) {
	source = normalizeNewlines(source)
	source = strings.TrimSuffix(source, "\n") // keep_trailing_newline is off
	l := &lexer{src: source, line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.text(); err != nil {
			return nil, at(l.line, err)
		}
	}
	l.emit(tokEOF, "", nil)
	return l.tokens, nil
}

func normalizeNewlines(s string) string {
	if !strings.Contains(s, "\r") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func (l *lexer) emit(kind tokenKind, text string, value any) {
	l.tokens = append(l.tokens, token{kind, l.line, text, value})
}

// advance consumes n bytes and counts their lines.
func (l *lexer) advance(n int) {
	eaten := l.src[l.pos : l.pos+n]
	l.line += strings.Count(eaten, "\n")
	l.pos += n
	if n > 0 {
		l.lineStart = eaten[n-1] == '\n'
	}
}

func (l *lexer) rest() string { return l.src[l.pos:] }

// text consumes text up to the next opening and then all that belongs to the opening.
func (l *lexer) text() error {
	n := nextOpening(l.rest())
	if n < 0 {
		l.emit(tokData, l.rest(), nil)
		l.advance(len(l.rest()))
		return nil
	}
	data := l.rest()[:n]
	kind := l.src[l.pos+n+1]
	if kind == '%' {
		if begin, sign, ok := matchRawBegin(l.rest()[n:]); ok {
			l.data(data, sign, true)
			l.advance(n + begin)
			return l.raw()
		}
	}
	sign := l.sign(n + 2)
	l.data(data, sign, kind != '{')
	l.advance(n + 2 + len(sign))
	switch kind {
	case '#':
		return l.comment()
	case '%':
		l.emit(tokTagBegin, "", nil)
		return l.tag("%}", tokTagEnd)
	}
	l.emit(tokPrintBegin, "", nil)
	return l.tag("}}", tokPrintEnd)
}

// nextOpening is the index of the first "{{", "{%" or "{#", or -1.
func nextOpening(s string) int {
	for i := 0; ; i++ {
		j := strings.IndexByte(s[i:], '{')
		if i += j; j < 0 || i+1 >= len(s) {
			return -1
		}
		if c := s[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
}

// sign is the whitespace control, "-", "+" or nothing, offset bytes from here.
func (l *lexer) sign(offset int) string {
	if r := l.rest()[offset:]; r != "" && (r[0] == '-' || r[0] == '+') {
		return r[:1]
	}
	return ""
}

// data emits the text before a tag: "-" strips all white space at its end; with no sign, a tag (but not a {{ }}) that
// stands first on its line loses its indentation (lstrip_blocks).
func (l *lexer) data(text, sign string, lstrip bool) {
	switch {
	case sign == "-":
		text = strings.TrimRightFunc(text, isSpace)
	case sign == "" && lstrip:
		lineBegin := strings.LastIndexByte(text, '\n') + 1
		if (lineBegin > 0 || l.lineStart) && strings.TrimFunc(text[lineBegin:], isSpace) == "" {
			text = text[:lineBegin]
		}
	}
	if text != "" {
		l.emit(tokData, text, nil)
	}
}

// closing measures a closing such as "-%}" at the start of s with what it swallows: "-" all white space after it, no sign
// one newline (trim_blocks). The sign "+" swallows nothing. 0 means that s does not start with one.
func closing(s, end string, plus, trim bool) int {
	if strings.HasPrefix(s, end) {
		if trim && strings.HasPrefix(s[len(end):], "\n") {
			return len(end) + 1
		}
		return len(end)
	}
	if s == "" || !strings.HasPrefix(s[1:], end) {
		return 0
	}
	switch {
	case s[0] == '-':
		return 1 + len(end) + leadingSpace(s[1+len(end):])
	case s[0] == '+' && plus:
		return 1 + len(end)
	}
	return 0
}

// leadingSpace is how many bytes of white space s starts with.
func leadingSpace(s string) int { return len(s) - len(strings.TrimLeftFunc(s, isSpace)) }

func (l *lexer) comment() error {
	s := l.rest()
	end := strings.Index(s, "#}")
	if end < 0 {
		return failKind(Syntax, "a comment is not closed by '#}'")
	}
	if end > 0 && (s[end-1] == '-' || s[end-1] == '+') {
		end--
	}
	l.advance(end + closing(s[end:], "#}", true, true))
	return nil
}

// matchRawBegin matches "{% raw %}" at the start of s and gives its length and its opening sign.
func matchRawBegin(s string) (n int, sign string, ok bool) {
	n = 2
	if n < len(s) && (s[n] == '-' || s[n] == '+') {
		sign = s[n : n+1]
		n++
	}
	n += leadingSpace(s[n:])
	if !strings.HasPrefix(s[n:], "raw") {
		return 0, "", false
	}
	n += len("raw")
	n += leadingSpace(s[n:])
	end := closing(s[n:], "%}", false, false)
	return n + end, sign, end > 0
}

// raw consumes the text of a raw block and its endraw.
func (l *lexer) raw() error {
	s := l.rest()
	for i := 0; ; i += 2 {
		j := strings.Index(s[i:], "{%")
		if j < 0 {
			return failKind(Syntax, "a raw block is not closed by '{%% endraw %%}'")
		}
		i += j
		n := i + 2
		sign := l.sign(n)
		n += len(sign)
		n += leadingSpace(s[n:])
		if !strings.HasPrefix(s[n:], "endraw") {
			continue
		}
		n += len("endraw")
		n += leadingSpace(s[n:])
		if end := closing(s[n:], "%}", true, true); end > 0 {
			l.data(s[:i], sign, true)
			l.advance(n + end)
			return nil
		}
	}
}

// tag consumes tokens up to the closing of a tag, which brackets must be balanced to reach.
func (l *lexer) tag(end string, endKind tokenKind) error {
	var open []byte // the closing brackets due
	for l.pos < len(l.src) {
		if len(open) == 0 {
			if n := closing(l.rest(), end, end == "%}", end == "%}"); n > 0 {
				l.emit(endKind, "", nil)
				l.advance(n)
				return nil
			}
		}
		if n := leadingSpace(l.rest()); n > 0 {
			l.advance(n)
			continue
		}
		if done, err := l.literal(); err != nil || done {
			if err != nil {
				return err
			}
			continue
		}
		op := matchOperator(l.rest())
		if op == "" {
			r, _ := utf8.DecodeRuneInString(l.rest())
			return failKind(Syntax, "unexpected character %q in a tag", r)
		}
		switch op {
		case "(":
			open = append(open, ')')
		case "[":
			open = append(open, ']')
		case "{":
			open = append(open, '}')
		case ")", "]", "}":
			if len(open) == 0 {
				return failKind(Syntax, "unexpected '%s'", op)
			}
			due := open[len(open)-1]
			if due != op[0] {
				return failKind(Syntax, "unexpected '%s', expected '%c'", op, due)
			}
			open = open[:len(open)-1]
		}
		l.emit(tokOperator, op, nil)
		l.advance(len(op))
	}
	return nil // the parser says what is missing
}

// matchOperator is the longest operator at the start of s, or "".
func matchOperator(s string) string {
	if len(s) >= 2 {
		switch s[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return s[:2]
		}
	}
	if s != "" && strings.IndexByte("+-/*%~[](){}><=.:|,;", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}
