package tokenizer

import (
	"strings"
)

// Decode returns the text of ids; ids without a token are left out, and with skipSpecial special tokens too. Where
// tokenizer_config.json asks for clean_up_tokenization_spaces, spaces before punctuation go, as in `transformers`.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if s, ok := t.decoderInput(id, skipSpecial); ok {
			tokens = append(tokens, s)
		}
	}
	text := t.decodeTokens(tokens)
	if t.cleanUp {
		text = cleanUpSpaces(text)
	}
	return text
}

// decoderInput returns the token that the decoder is given for id; not ok when the id adds nothing.
func (t *Tokenizer) decoderInput(id int32, skipSpecial bool) (string, bool) {
	s, ok := t.added.text(id)
	if !ok {
		s, ok = t.vocab.text(id)
	}
	return s, ok && !(skipSpecial && t.added.special[s])
}

func (t *Tokenizer) decodeTokens(tokens []string) string {
	if t.dec == nil {
		return strings.Join(tokens, " ")
	}
	return strings.Join(t.dec.decode(tokens), "")
}

// TokenBytes returns the bytes that a token adds in the middle of a text; they need not be whole runes. Special tokens
// give their content. It returns nil for ids without a token.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	token, ok := t.decoderInput(id, false)
	switch {
	case !ok:
		return nil
	case t.steps != nil:
		return t.steps.bytes(nil, token, false)
	}
	return []byte(t.decodeTokens([]string{"", token, ""}))
}

// cleanUpSpaces is clean_up_tokenization of `transformers`.
func cleanUpSpaces(s string) string {
	for _, sign := range []string{".", "?", "!", ",", "' ", "n't", "'m", "'s", "'ve", "'re"} {
		s = strings.ReplaceAll(s, " "+sign, strings.TrimSuffix(sign, " "))
	}
	return s
}
