package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// literal consumes a number, a name or a string, if one stands here.
func (l *lexer) literal() (bool, error) {
	s := l.rest()
	if n := matchFloat(s, l.pos > 0 && l.src[l.pos-1] == '.'); n > 0 {
		f, err := strconv.ParseFloat(strings.ReplaceAll(s[:n], "_", ""), 64)
		if err != nil && f == 0 {
			return false, failKind(Syntax, "%q is not a number", s[:n])
		}
		l.emit(tokFloat, "", f)
		l.advance(n)
		return true, nil
	}
	if n := matchInteger(s); n > 0 {
		if n > maxIntBits/4 {
			return false, failKind(Syntax, "an integer of %d digits is too long", n)
		}
		i, ok := new(big.Int).SetString(strings.ReplaceAll(s[:n], "_", ""), 0)
		if !ok {
			return false, failKind(Syntax, "%q is not a number", s[:n])
		}
		l.emit(tokInteger, "", normalInt(i))
		l.advance(n)
		return true, nil
	}
	if n := matchName(s); n > 0 {
		if !isIdentifier(s[:n]) {
			return false, failKind(Syntax, "%q is not a name: it has a character that names cannot have", s[:n])
		}
		l.emit(tokName, s[:n], nil)
		l.advance(n)
		return true, nil
	}
	if s[0] != '\'' && s[0] != '"' {
		return false, nil
	}
	n := matchString(s)
	if n == 0 {
		return false, failKind(Syntax, "a string is not closed by %c", s[0])
	}
	text, err := unescape(s[1 : n-1])
	if err != nil {
		return false, err
	}
	l.emit(tokString, text, nil)
	l.advance(n)
	return true, nil
}

// matchDigits measures digits at the start of s, with single underscores between them.
func matchDigits(s string, digit func(byte) bool) int {
	n := 0
	for n < len(s) && (digit(s[n]) || n > 0 && s[n] == '_' && n+1 < len(s) && digit(s[n+1])) {
		n++
	}
	return n
}

func isDecimal(c byte) bool { return c >= '0' && c <= '9' }

// matchFloat measures a float such as 1.5, 1e3 or 1_0.5e-3. After a dot there is none: a.1.5 is a[1][5].
func matchFloat(s string, afterDot bool) int {
	whole := matchDigits(s, isDecimal)
	if whole == 0 || afterDot {
		return 0
	}
	n := whole
	if n < len(s) && s[n] == '.' {
		if frac := matchDigits(s[n+1:], isDecimal); frac > 0 {
			n += 1 + frac
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		e := n + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if digits := matchDigits(s[e:], isDecimal); digits > 0 {
			return e + digits
		}
	}
	if n == whole {
		return 0
	}
	return n
}

// matchInteger measures an integer: decimal, or with the prefix 0b, 0o or 0x. A decimal one does not start with 0.
func matchInteger(s string) int {
	if s[0] == '0' {
		if len(s) > 2 {
			digit := map[byte]func(byte) bool{
				'b': func(c byte) bool { return c == '0' || c == '1' },
				'o': func(c byte) bool { return c >= '0' && c <= '7' },
				'x': func(c byte) bool { return isDecimal(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
			}[s[1]|0x20]
			if digit != nil {
				skip := 2
				if s[2] == '_' {
					skip = 3
				}
				if n := matchDigits(s[skip:], digit); n > 0 {
					return skip + n
				}
			}
		}
		return matchDigits(s, func(c byte) bool { return c == '0' })
	}
	return matchDigits(s, isDecimal)
}

func matchName(s string) int {
	for i, r := range s {
		if !isWord(r) && !unicode.IsMark(r) && r != '·' && !unicode.Is(unicode.Pc, r) {
			return i
		}
	}
	return len(s)
}

// matchString measures a quoted string, whose backslashes escape the quote.
func matchString(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// unescape decodes the escapes of a string literal as Python's unicode-escape codec does.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i+1:])
		i += 1 + size
		switch r {
		case '\n':
		case '\\', '\'', '"':
			b.WriteRune(r)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexRune("abfnrtv", r)])
		case '0', '1', '2', '3', '4', '5', '6', '7':
			end := i
			for end < len(s) && end < i+2 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			code, _ := strconv.ParseUint(s[i-1:end], 8, 16)
			b.WriteRune(rune(code))
			i = end
		case 'x', 'u', 'U':
			digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[r]
			if len(s)-i < digits {
				return "", failKind(Syntax, "the escape \\%c in a string needs %d hexadecimal digits", r, digits)
			}
			code, err := strconv.ParseUint(s[i:i+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(code)) || code > unicode.MaxRune {
				return "", failKind(Syntax, "the escape \\%c%s in a string is not a character", r, s[i:i+digits])
			}
			b.WriteRune(rune(code))
			i += digits
		case 'N':
			return "", failKind(Syntax, "the escape \\N{…} in a string is not supported: write the character itself")
		default:
			b.WriteByte('\\')
			b.WriteString(asciiEscape(r))
		}
	}
	return b.String(), nil
}

// asciiEscape is what Python leaves of a character after a backslash that escapes nothing: beyond ASCII, the codec has
// already turned it into an escape without its backslash.
func asciiEscape(r rune) string {
	switch {
	case r < 0x80:
		return string(r)
	case r < 0x100:
		return "x" + hex(r, 2)
	case r < 0x10000:
		return "u" + hex(r, 4)
	}
	return "U" + hex(r, 8)
}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(s))) + s
}
