package tokenizer

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// Patterns of real tokenizers take a second for a few megabytes. These limits turn a hostile pair of pattern and text,
// on which backtracking goes on and on, into an error.
const (
	matchTime   = 30 * time.Second      // for one match, and for a whole text
	timePerByte = 10 * time.Microsecond // more for a whole text
)

// regexpMatcher matches any pattern, written for Oniguruma as tokenizer.json files are, with regexp2.
type regexpMatcher struct{ re *regexp2.Regexp }

func compileRegexp(pattern string) (*regexpMatcher, error) {
	// Oniguruma's ^ and $ match at line ends without being asked. The backtracking stack may grow with the text, which is
	// in memory already, so its default limit of 100,000 entries is lifted.
	re, err := regexp2.Compile(translatePattern(pattern), regexp2.Multiline, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: cannot compile the pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = matchTime
	return &regexpMatcher{re}, nil
}

// matches calls yield with the byte range of every match in s, left to right, but for empty ones right behind another, until yield returns false.
func (m *regexpMatcher) matches(s string, yield func(start, end int) bool) error {
	runes := []rune(s)
	limit := time.Now().Add(matchTime + time.Duration(len(s))*timePerByte)
	var at position
	late, prev, n := false, -1, 0
	err := m.re.FindRunesMatches(runes, 0, func(v regexp2.MatchView) bool {
		i, length, _ := v.GroupRange(0)
		if n++; n%64 == 0 && time.Now().After(limit) {
			late = true
			return false
		}
		if length > 0 || i != prev {
			start := at.advance(runes, i)
			if !yield(start, at.advance(runes, i+length)) {
				return false
			}
		}
		prev = i + length
		return true
	})
	if err != nil || late { // the library's error holds the whole text
		return fmt.Errorf("tokenizer: the pattern %q takes too long on a text of %d bytes", m.re.String(), len(s))
	}
	return nil
}

// position turns ascending indexes of runes into indexes of bytes.
type position struct{ rune, byte int }

func (p *position) advance(runes []rune, to int) int {
	for ; p.rune < to; p.rune++ {
		p.byte += utf8.RuneLen(runes[p.rune])
	}
	return p.byte
}

// translatePattern rewrites what Oniguruma spells differently from regexp2: possessive quantifiers (X++ is (?>X+)), classes
// within classes ([a[bc]] is [abc]) and intersections with a complement ([A&&[^B]] is [A-[B]]).
func translatePattern(p string) string {
	var out strings.Builder
	atom := 0 // where the latest atom starts in out
	var groups []int
	for i := 0; i < len(p); {
		switch c := p[i]; {
		case c == '\\' && i+1 < len(p):
			atom = out.Len()
			n := 2
			if (p[i+1] == 'p' || p[i+1] == 'P') && i+2 < len(p) && p[i+2] == '{' {
				if end := strings.IndexByte(p[i:], '}'); end > 0 {
					n = end + 1
				}
			}
			out.WriteString(p[i : i+n])
			i += n
		case c == '[':
			n := classLength(p[i:])
			atom = out.Len()
			out.WriteString(translateClass(p[i : i+n]))
			i += n
		case c == '(':
			groups = append(groups, out.Len())
			out.WriteByte(c)
			i++
		case c == ')' && len(groups) > 0:
			atom = groups[len(groups)-1]
			groups = groups[:len(groups)-1]
			out.WriteByte(c)
			i++
		default:
			n := quantifierLength(p[i:])
			if n == 0 {
				atom = out.Len()
				out.WriteByte(c)
				i++
				break
			}
			out.WriteString(p[i : i+n])
			i += n
			if i < len(p) && p[i] == '+' {
				whole := out.String()
				out.Reset()
				if p[i-1] == '}' { // in Ruby's syntax {n,m}+ repeats the repeat
					out.WriteString(whole[:atom] + "(?:" + whole[atom:] + ")+")
				} else {
					out.WriteString(whole[:atom] + "(?>" + whole[atom:] + ")")
				}
				i++
			}
		}
	}
	return out.String()
}

// quantifierLength is the length of the quantifier at the start of p, without a lazy or possessive mark; 0 if none.
func quantifierLength(p string) int {
	switch p[0] {
	case '*', '+', '?':
		return 1
	case '{':
		end := strings.IndexByte(p, '}')
		if end > 1 && strings.Trim(p[1:end], "0123456789,") == "" {
			return end + 1
		}
	}
	return 0
}

// classLength is the length of the bracketed class that p starts with, nested classes included.
func classLength(p string) int {
	depth := 0
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(p)
}

// posixClasses are the named classes that can stand within brackets.
var posixClasses = strings.NewReplacer(
	"[:alpha:]", `\p{L}\p{M}`, "[:digit:]", `\p{Nd}`, "[:alnum:]", `\p{L}\p{M}\p{N}`, "[:upper:]", `\p{Lu}`, "[:lower:]", `\p{Ll}`,
	"[:punct:]", `\p{P}\p{S}`, "[:space:]", `\s`, "[:word:]", `\w`,
)

// translateClass rewrites a bracketed class: [A&&[^B]] as [A-[B]], and otherwise a union of classes as one.
func translateClass(class string) string {
	class = posixClasses.Replace(class)
	if left, right, ok := strings.Cut(class, "&&[^"); ok && strings.HasSuffix(right, "]]") {
		return strings.TrimSuffix(translateClass(left+"]"), "]") + "-[" + right
	}
	inner := class[1:max(1, len(class)-1)]
	if !strings.Contains(inner, "[") || strings.Contains(inner, "[^") {
		return class
	}
	var out strings.Builder
	out.WriteByte('[')
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '\\' && i+1 < len(inner):
			out.WriteString(inner[i : i+2])
			i++
		case c != '[' && c != ']':
			out.WriteByte(c)
		}
	}
	out.WriteByte(']')
	return out.String()
}
