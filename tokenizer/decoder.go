package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A decoder turns the tokens of a text into parts of the text. It gets and gives a list, as some decoders look at
// neighbours or at the place of a token.
type decoder interface {
	decode(tokens []string) []string
}

// decoders applies several, in order.
type decoders []decoder

func (ds decoders) decode(tokens []string) []string {
	for _, d := range ds {
		tokens = d.decode(tokens)
	}
	return tokens
}

// eachToken makes a decoder of a function of one token and of whether it is the first.
type eachToken func(token string, first bool) string

func (f eachToken) decode(tokens []string) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		out[i] = f(t, i == 0)
	}
	return out
}

// byteLevelDecoder reads the byte alphabet. A token with a rune outside it stands for its own bytes.
type byteLevelDecoder struct{}

func (byteLevelDecoder) decode(tokens []string) []string {
	var raw []byte
	for _, t := range tokens {
		raw = appendSpelled(raw, t)
	}
	return []string{string(appendLossy(nil, raw))}
}

func appendSpelled(dst []byte, token string) []byte {
	if out, ok := appendAlphabetBytes(dst, token); ok {
		return out
	}
	return append(dst, token...)
}

// byteFallbackDecoder makes text of runs of the tokens <0x00> … <0xFF>. A run that is not valid UTF-8 as a whole gives
// one U+FFFD for each of its bytes.
type byteFallbackDecoder struct{}

func (byteFallbackDecoder) decode(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		switch {
		case len(run) == 0:
		case utf8.Valid(run):
			out = append(out, string(run))
		default:
			out = append(out, strings.Repeat(replacement, len(run)))
		}
		run = run[:0]
	}
	for _, t := range tokens {
		if b, ok := byteToken(t); ok {
			run = append(run, b)
			continue
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

// byteToken reads <0xNN>.
func byteToken(t string) (byte, bool) {
	if len(t) != 6 || t[:3] != "<0x" || t[5] != '>' {
		return 0, false
	}
	hi, ok1 := hexDigit(t[3])
	lo, ok2 := hexDigit(t[4])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// fuse joins all tokens to one.
type fuse struct{}

func (fuse) decode(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// stripDecoder drops up to start copies of a rune from the front of each token, and up to stop from its end.
type stripDecoder struct {
	content     rune
	start, stop int
}

func (d stripDecoder) decode(tokens []string) []string {
	return eachToken(func(t string, _ bool) string { return d.strip(t) }).decode(tokens)
}

func (d stripDecoder) strip(t string) string {
	c := string(d.content)
	for i := 0; i < d.start && strings.HasPrefix(t, c); i++ {
		t = t[len(c):]
	}
	for i := 0; i < d.stop && strings.HasSuffix(t, c); i++ {
		t = t[:len(t)-len(c)]
	}
	return t
}

// metaspaceDecoder makes spaces of ▁, and drops those of the first token where encoding puts one there.
func metaspaceDecoder(m metaspacer) eachToken {
	return func(t string, first bool) string {
		if first && m.scheme != prependNever {
			return strings.ReplaceAll(t, m.mark, "")
		}
		return strings.ReplaceAll(t, m.mark, " ")
	}
}

// wordPieceDecoder joins tokens that start with prefix to the one before, and others with a space.
func wordPieceDecoder(prefix string, cleanup bool) eachToken {
	return func(t string, first bool) string {
		if !first {
			if rest, ok := strings.CutPrefix(t, prefix); ok {
				t = rest
			} else {
				t = " " + t
			}
		}
		if cleanup {
			t = cleanUpWordPiece(t)
		}
		return t
	}
}

func cleanUpWordPiece(s string) string {
	for _, pair := range [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
		{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}} {
		s = strings.ReplaceAll(s, pair[0], pair[1])
	}
	return s
}

// bpeDecoder makes spaces of the suffix that ends words, and nothing of the one that ends the text.
type bpeDecoder struct{ suffix string }

func (d bpeDecoder) decode(tokens []string) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		space := " "
		if i == len(tokens)-1 {
			space = ""
		}
		out[i] = strings.ReplaceAll(t, d.suffix, space)
	}
	return out
}

// ctcDecoder reads the output of a speech model: repeated tokens count once, pad separates, delimiter is a space.
type ctcDecoder struct {
	pad, delimiter string
	cleanup        bool
}

func (d ctcDecoder) decode(tokens []string) []string {
	var out []string
	for i, t := range tokens {
		if i > 0 && t == tokens[i-1] {
			continue
		}
		t = strings.ReplaceAll(t, d.pad, "")
		if d.cleanup {
			t = strings.ReplaceAll(cleanUpWordPiece(t), d.delimiter, " ")
		}
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}
