package tokenizer

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// component is one normalizer, pre-tokenizer, post-processor or decoder of a tokenizer.json, with the fields of all types.
type component struct {
	Type string `json:"type"`

	Normalizers   []*component `json:"normalizers"`
	PreTokenizers []*component `json:"pretokenizers"`
	Processors    []*component `json:"processors"`
	Decoders      []*component `json:"decoders"`

	Pattern *struct {
		String *string
		Regex  *string
	} `json:"pattern"`
	Content    string `json:"content"`  // Replace, Strip (decoder)
	Prepend    string `json:"prepend"`  // Prepend
	Behavior   string `json:"behavior"` // Split, Punctuation
	Invert     bool   `json:"invert"`   // Split
	Lowercase  *bool  `json:"lowercase"`
	Accents    *bool  `json:"strip_accents"`
	CleanText  *bool  `json:"clean_text"`
	Chinese    *bool  `json:"handle_chinese_chars"`
	StripLeft  bool   `json:"strip_left"`
	StripRight bool   `json:"strip_right"`
	Charsmap   string `json:"precompiled_charsmap"`

	PrefixSpace   *bool   `json:"add_prefix_space"` // ByteLevel, Metaspace of old files
	UseRegex      *bool   `json:"use_regex"`
	Replacement   string  `json:"replacement"`
	PrependScheme string  `json:"prepend_scheme"`
	Split         *bool   `json:"split"`
	Individual    bool    `json:"individual_digits"`
	Delimiter     string  `json:"delimiter"`
	Length        *int    `json:"length"`
	Prefix        *string `json:"prefix"`
	Cleanup       *bool   `json:"cleanup"`
	Suffix        *string `json:"suffix"`
	PadToken      string  `json:"pad_token"`
	WordDelimiter string  `json:"word_delimiter_token"`
	Start         int     `json:"start"`
	Stop          int     `json:"stop"`

	Sep           namedID                   `json:"sep"`
	Cls           namedID                   `json:"cls"`
	Single        []templatePart            `json:"single"`
	Pair          []templatePart            `json:"pair"`
	SpecialTokens map[string]templateTokens `json:"special_tokens"`
}

func flag(b *bool, otherwise bool) bool {
	if b == nil {
		return otherwise
	}
	return *b
}

// list is the components of a Sequence, or the component alone.
func (c *component) list(of func(*component) []*component) []*component {
	if c == nil {
		return nil
	}
	if c.Type != "Sequence" {
		return []*component{c}
	}
	var flat []*component
	for _, part := range of(c) {
		flat = append(flat, part.list(of)...)
	}
	return flat
}

func (c *component) normalizerList() []*component {
	return c.list(func(c *component) []*component { return c.Normalizers })
}

func (c *component) preTokenizerList() []*component {
	return c.list(func(c *component) []*component { return c.PreTokenizers })
}

func (c *component) decoderList() []*component {
	return c.list(func(c *component) []*component { return c.Decoders })
}

func (c *component) normalizer() (normalizer, error) {
	var all normalizers
	for _, part := range c.normalizerList() {
		n, err := part.oneNormalizer()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return all, nil
}

func (c *component) oneNormalizer() (normalizer, error) {
	switch c.Type {
	case "NFC":
		return unicodeForm{norm.NFC}, nil
	case "NFD":
		return unicodeForm{norm.NFD}, nil
	case "NFKC":
		return unicodeForm{norm.NFKC}, nil
	case "NFKD":
		return unicodeForm{norm.NFKD}, nil
	case "Lowercase":
		return lowercase{}, nil
	case "StripAccents":
		return stripAccents{}, nil
	case "Strip", "StripNormalizer":
		return strip{c.StripLeft, c.StripRight}, nil
	case "Nmt":
		return nmt{}, nil
	case "Prepend":
		return prepend{c.Prepend}, nil
	case "ByteLevel":
		return byteLevelNormalizer{}, nil
	case "Replace":
		return c.replace()
	case "Precompiled":
		if c.Charsmap == "" {
			return normalizers{}, nil // files by transformers.js have null for a map that changes nothing
		}
		blob, err := base64.StdEncoding.DecodeString(c.Charsmap)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: the precompiled_charsmap is not base64: %w", err)
		}
		return newCharsmap(blob)
	case "BertNormalizer":
		lower := flag(c.Lowercase, true)
		return bertNormalizer{
			cleanText: flag(c.CleanText, true), spaceChinese: flag(c.Chinese, true),
			stripAccents: flag(c.Accents, lower), lowercase: lower,
		}, nil
	}
	return nil, fmt.Errorf("tokenizer: unknown normalizer type %q", c.Type)
}

func (c *component) replace() (r replace, err error) {
	r.content = c.Content
	switch {
	case c.Pattern == nil || c.Pattern.String == nil && c.Pattern.Regex == nil:
		return r, fmt.Errorf("tokenizer: %s has no pattern", c.Type)
	case c.Pattern.String != nil:
		r.literal = *c.Pattern.String
	default:
		r.pattern, err = compileRegexp(*c.Pattern.Regex)
	}
	return r, err
}

func (c *component) preTokenizers() (all preTokenizers, err error) {
	for _, part := range c.preTokenizerList() {
		p, err := part.onePreTokenizer()
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// endsInByteLevel reports whether the last of the pre-tokenizers spells words in the byte alphabet.
func (c *component) endsInByteLevel() bool {
	all := c.preTokenizerList()
	return len(all) > 0 && all[len(all)-1].Type == "ByteLevel"
}

// withoutSpelling makes the last pre-tokenizer, a byteLevel, leave words as they are, for a model that takes bytes. It
// goes altogether when nothing is left for it to do.
func (ps preTokenizers) withoutSpelling() preTokenizers {
	last := ps[len(ps)-1].(byteLevel)
	last.spell = false
	ps = append(preTokenizers(nil), ps[:len(ps)-1]...)
	if last.prefixSpace || last.tiler != nil {
		ps = append(ps, last)
	}
	return ps
}

func (c *component) onePreTokenizer() (preTokenizer, error) {
	switch c.Type {
	case "ByteLevel":
		b := byteLevel{prefixSpace: flag(c.PrefixSpace, true), spell: true}
		if flag(c.UseRegex, true) {
			b.tiler = knownTiler(patternGPT2)
		}
		return b, nil
	case "Split":
		return c.splitter()
	case "Metaspace":
		return c.metaspacer()
	case "Whitespace":
		return whitespace, nil
	case "WhitespaceSplit":
		return whitespaceSplit, nil
	case "BertPreTokenizer":
		return bertPreTokenizer, nil
	case "Digits":
		return digits(c.Individual), nil
	case "UnicodeScripts":
		return newScriptSplit(), nil
	case "Punctuation":
		b := isolated
		if c.Behavior != "" {
			var err error
			if b, err = parseBehavior(c.Behavior); err != nil {
				return nil, err
			}
		}
		return split{matcher: runeMatcher(isPunctuation), behavior: b}, nil
	case "CharDelimiterSplit", "Delimiter":
		return split{matcher: literal(c.Delimiter), behavior: removed}, nil
	case "FixedLength":
		n := 5
		if c.Length != nil {
			n = *c.Length
		}
		if n < 1 {
			return nil, fmt.Errorf("tokenizer: FixedLength has length %d; it must be at least 1", n)
		}
		return fixedLength(n), nil
	}
	return nil, fmt.Errorf("tokenizer: unknown pre_tokenizer type %q", c.Type)
}

func (c *component) splitter() (preTokenizer, error) {
	b, err := parseBehavior(c.Behavior)
	if err != nil {
		return nil, err
	}
	s := split{behavior: b, invert: c.Invert}
	switch {
	case c.Pattern == nil || c.Pattern.String == nil && c.Pattern.Regex == nil:
		return nil, fmt.Errorf("tokenizer: Split has no pattern")
	case c.Pattern.String != nil:
		s.matcher = literal(*c.Pattern.String)
	default:
		s.matcher, err = compilePattern(*c.Pattern.Regex)
	}
	return s, err
}

func (c *component) metaspacer() (m metaspacer, err error) {
	m = metaspacer{mark: c.Replacement, split: flag(c.Split, true)}
	if utf8.RuneCountInString(m.mark) != 1 {
		return m, fmt.Errorf("tokenizer: Metaspace has replacement %q; it must be one character", m.mark)
	}
	switch c.PrependScheme {
	case "always":
	case "first":
		m.scheme = prependFirst
	case "never":
		m.scheme = prependNever
	case "":
		if !flag(c.PrefixSpace, true) {
			m.scheme = prependNever
		}
	default:
		return m, fmt.Errorf("tokenizer: Metaspace has prepend_scheme %q; it must be always, first or never", c.PrependScheme)
	}
	if m.scheme != prependNever && !flag(c.PrefixSpace, true) {
		return m, fmt.Errorf("tokenizer: Metaspace has add_prefix_space false but prepend_scheme %q", c.PrependScheme)
	}
	return m, nil
}
