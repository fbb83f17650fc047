package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// unicodeForm is NFC, NFD, NFKC or NFKD.
type unicodeForm struct{ form norm.Form }

func (n unicodeForm) normalize(s string) string {
	if n.form.IsNormalString(s) {
		return s
	}
	if longestMarks(s) > maxMarks {
		return n.unlimited(s)
	}
	return n.form.String(s)
}

// maxMarks is the number of combining marks in a row after which package norm inserts U+034F ("stream-safe text"). Rust's
// crate does not, so longer runs are composed here.
const maxMarks = 30

func longestMarks(s string) (longest int) {
	n := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			n = 0
			i++
			continue
		}
		p := norm.NFKD.PropertiesString(s[i:])
		if marks := decomposedMarks(p); marks > 0 {
			n += marks
		} else {
			n = 0
		}
		longest = max(longest, n)
		i += max(p.Size(), 1)
	}
	return longest
}

// decomposedMarks is the number of marks that a rune adds to the run it is in; 0 when the rune starts a new run.
func decomposedMarks(p norm.Properties) int {
	if d := p.Decomposition(); d != nil {
		return utf8.RuneCount(d)
	}
	if p.CCC() != 0 {
		return 1
	}
	return 0
}

// unlimited normalises without the limit on marks: it decomposes, sorts marks by combining class, and composes, by the
// algorithm of Unicode Standard Annex 15. It is slow, and meant for the rare text that needs it.
func (n unicodeForm) unlimited(s string) string {
	decompose := norm.NFD
	if n.form == norm.NFKC || n.form == norm.NFKD {
		decompose = norm.NFKD
	}
	var runes []classedRune
	for _, r := range s {
		for _, d := range decompose.String(string(r)) {
			runes = append(runes, classedRune{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for i := 0; i < len(runes); i++ {
		start := i
		for i < len(runes) && runes[i].ccc != 0 {
			i++
		}
		slices.SortStableFunc(runes[start:i], func(a, b classedRune) int { return int(a.ccc) - int(b.ccc) })
	}
	if n.form == norm.NFC || n.form == norm.NFKC {
		runes = compose(runes)
	}
	var out strings.Builder
	for _, r := range runes {
		out.WriteRune(r.r)
	}
	return out.String()
}

// classedRune is a rune and its canonical combining class.
type classedRune struct {
	r   rune
	ccc uint8
}

// compose joins every starter with the marks and starters after it that it has a precomposed form with.
func compose(runes []classedRune) []classedRune {
	var out []classedRune
	starter, last := -1, -1 // index into out; class of the rune kept last after the starter
	for _, c := range runes {
		if starter >= 0 && last < int(c.ccc) {
			joined := []rune(norm.NFC.String(string([]rune{out[starter].r, c.r})))
			if len(joined) == 1 {
				out[starter].r = joined[0]
				continue
			}
		}
		out = append(out, c)
		if c.ccc == 0 {
			starter, last = len(out)-1, -1
		} else {
			last = int(c.ccc)
		}
	}
	return out
}
