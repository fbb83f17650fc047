package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// namedID is a token and its id, ["[SEP]", 102] in JSON.
type namedID struct {
	name string
	id   int32
}

func (n *namedID) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if err := json.Unmarshal(pair[0], &n.name); err != nil {
		return err
	}
	return json.Unmarshal(pair[1], &n.id)
}

type templatePart struct {
	Sequence     *struct{ ID string }
	SpecialToken *struct{ ID string }
}

type templateTokens struct {
	IDs []int32 `json:"ids"`
}

// template reads a post-processor; of a Sequence, each goes around what the ones before made.
func (c *component) template() (template, error) {
	var all template
	for _, part := range c.list(func(c *component) []*component { return c.Processors }) {
		t, err := part.oneTemplate()
		if err != nil {
			return nil, err
		}
		all = t.around(all)
	}
	return all, nil
}

func (c *component) oneTemplate() (template, error) {
	switch c.Type {
	case "ByteLevel": // concerns offsets only
		return nil, nil
	case "BertProcessing", "RobertaProcessing":
		return wrapped(c.Cls.id, c.Sep.id), nil
	case "TemplateProcessing":
		t := template{}
		for _, p := range c.Single {
			switch {
			case p.Sequence != nil && p.Sequence.ID == "A":
				t = append(t, nil)
			case p.Sequence != nil:
				return nil, fmt.Errorf("tokenizer: the template for one text uses the second one, %q", p.Sequence.ID)
			case p.SpecialToken != nil:
				tokens, ok := c.SpecialTokens[p.SpecialToken.ID]
				if !ok {
					return nil, fmt.Errorf("tokenizer: the template uses %q, which is not among its special_tokens", p.SpecialToken.ID)
				}
				if len(tokens.IDs) > 0 {
					t = append(t, tokens.IDs)
				}
			}
		}
		return t, nil
	}
	return nil, fmt.Errorf("tokenizer: unknown post_processor type %q", c.Type)
}

func (c *component) decoder() (decoder, error) {
	var all decoders
	for _, part := range c.decoderList() {
		d, err := part.oneDecoder()
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if c == nil {
		return nil, nil
	}
	return all, nil
}

func (c *component) oneDecoder() (decoder, error) {
	switch c.Type {
	case "ByteLevel":
		return byteLevelDecoder{}, nil
	case "ByteFallback":
		return byteFallbackDecoder{}, nil
	case "Fuse":
		return fuse{}, nil
	case "Metaspace":
		m, err := c.metaspacer()
		return metaspaceDecoder(m), err
	case "Replace":
		r, err := c.replace()
		return eachToken(func(t string, _ bool) string { return r.normalize(t) }), err
	case "Strip":
		r, n := utf8.DecodeRuneInString(c.Content)
		if n == 0 || n != len(c.Content) || c.Start < 0 || c.Stop < 0 {
			return nil, fmt.Errorf("tokenizer: the Strip decoder needs one character and two counts, not %q, %d, %d", c.Content, c.Start, c.Stop)
		}
		return stripDecoder{r, c.Start, c.Stop}, nil
	case "WordPiece":
		prefix := "##"
		if c.Prefix != nil {
			prefix = *c.Prefix
		}
		return wordPieceDecoder(prefix, flag(c.Cleanup, true)), nil
	case "BPEDecoder":
		suffix := "</w>"
		if c.Suffix != nil {
			suffix = *c.Suffix
		}
		return bpeDecoder{suffix}, nil
	case "CTC":
		return ctcDecoder{c.PadToken, c.WordDelimiter, flag(c.Cleanup, true)}, nil
	}
	return nil, fmt.Errorf("tokenizer: unknown decoder type %q", c.Type)
}
