package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonScan walks JSON text without building values for it. It exists for the vocabulary and the merges of a
// tokenizer.json, hundreds of thousands of short strings that encoding/json needs half a second for; the small parts of
// the file go to encoding/json. Errors stick: after the first, every method returns zero values.
type jsonScan struct {
	s   string // valid UTF-8
	i   int
	err error
}

func (j *jsonScan) fail(what string) {
	if j.err == nil {
		j.err = fmt.Errorf("tokenizer: the JSON is broken at byte %d: %s", j.i, what)
	}
}

// peek skips white space and returns the byte that comes, 0 at the end or after an error.
func (j *jsonScan) peek() byte {
	if j.err != nil {
		return 0
	}
	for j.i < len(j.s) {
		switch c := j.s[j.i]; c {
		case ' ', '\t', '\n', '\r':
			j.i++
		default:
			return c
		}
	}
	return 0
}

func (j *jsonScan) expect(c byte) {
	if j.peek() != c {
		j.fail(fmt.Sprintf("expected %q", c))
		return
	}
	j.i++
}

// object calls field for each key, with the scan at its value, which field must consume.
func (j *jsonScan) object(field func(key string)) {
	j.list('{', '}', func() {
		key := j.str()
		j.expect(':')
		field(key)
	})
}

// array calls item with the scan at each item, which item must consume.
func (j *jsonScan) array(item func()) { j.list('[', ']', item) }

func (j *jsonScan) list(open, end byte, item func()) {
	j.expect(open)
	if j.peek() == end {
		j.i++
		return
	}
	for j.err == nil {
		item()
		switch j.peek() {
		case ',':
			j.i++
		case end:
			j.i++
			return
		default:
			j.fail(fmt.Sprintf("expected ',' or %q", end))
		}
	}
}

// str reads a string. Without escapes it is a slice of the input.
func (j *jsonScan) str() string {
	j.expect('"')
	if j.err != nil {
		return ""
	}
	for i := j.i; i < len(j.s); i++ {
		switch c := j.s[i]; {
		case c == '"':
			s := j.s[j.i:i]
			j.i = i + 1
			return s
		case c == '\\':
			return j.escaped(i)
		case c < ' ':
			j.i = i
			j.fail("a control character in a string")
			return ""
		}
	}
	j.fail("a string without end")
	return ""
}

// escaped reads a string whose first backslash is at byte i.
func (j *jsonScan) escaped(i int) string {
	var out strings.Builder
	for {
		out.WriteString(j.s[j.i:i])
		j.i = i
		if i+1 >= len(j.s) {
			j.fail("a string without end")
			return ""
		}
		j.i += 2
		switch c := j.s[i+1]; c {
		case '"', '\\', '/':
			out.WriteByte(c)
		case 'b', 'f', 'n', 'r', 't':
			out.WriteByte("\b\f\n\r\t"[strings.IndexByte("bfnrt", c)])
		case 'u':
			out.WriteRune(j.unicode())
		default:
			j.fail("an unknown escape")
		}
		for i = j.i; ; i++ {
			if j.err != nil || i >= len(j.s) || j.s[i] < ' ' {
				j.fail("a string without end")
				return ""
			}
			if j.s[i] == '"' {
				out.WriteString(j.s[j.i:i])
				j.i = i + 1
				return out.String()
			}
			if j.s[i] == '\\' {
				break
			}
		}
	}
}

// unicode reads what follows \u, and a second escape where the first is half a surrogate pair.
func (j *jsonScan) unicode() rune {
	r := j.hex4()
	if utf16.IsSurrogate(r) {
		if !strings.HasPrefix(j.s[j.i:], `\u`) {
			j.fail("half a surrogate pair")
			return 0
		}
		j.i += 2
		if r = utf16.DecodeRune(r, j.hex4()); r == utf8.RuneError {
			j.fail("half a surrogate pair")
		}
	}
	return r
}

func (j *jsonScan) hex4() rune {
	if j.i+4 > len(j.s) {
		j.fail("a short \\u escape")
		return 0
	}
	n, err := strconv.ParseUint(j.s[j.i:j.i+4], 16, 16)
	if err != nil {
		j.fail("a bad \\u escape")
	}
	j.i += 4
	return rune(n)
}

// number reads a number as text.
func (j *jsonScan) number() string {
	j.peek()
	start := j.i
	for j.err == nil && j.i < len(j.s) && strings.IndexByte("+-.0123456789eE", j.s[j.i]) >= 0 {
		j.i++
	}
	if j.i == start {
		j.fail("expected a number")
	}
	return j.s[start:j.i]
}

// integer reads a whole number.
func (j *jsonScan) integer() int64 {
	text := j.number()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		j.fail(fmt.Sprintf("expected a whole number, not %q", text))
	}
	return n
}

// raw skips one value of any kind and returns its text. The text is checked only as far as finding its end needs.
func (j *jsonScan) raw() string {
	c := j.peek()
	start, depth := j.i, 0
	for j.err == nil {
		switch c {
		case '"':
			j.skipString()
		case '{', '[':
			depth++
			j.i++
		case '}', ']':
			depth--
			j.i++
		case ',', ':':
			j.i++
		case 0:
			j.fail("a value without end")
		default:
			j.scalar()
		}
		if depth <= 0 {
			break
		}
		c = j.peek()
	}
	return j.s[start:j.i]
}

func (j *jsonScan) skipString() {
	for i := j.i + 1; i < len(j.s); i++ {
		switch j.s[i] {
		case '\\':
			i++
		case '"':
			j.i = i + 1
			return
		}
	}
	j.fail("a string without end")
}

// scalar skips a number, true, false or null.
func (j *jsonScan) scalar() {
	start := j.i
	for j.i < len(j.s) && strings.IndexByte(" \t\r\n,:{}[]\"", j.s[j.i]) < 0 {
		j.i++
	}
	if j.i == start {
		j.fail("expected a value")
	}
}
