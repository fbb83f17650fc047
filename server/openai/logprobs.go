package openai

import (
	"strings"
	"unicode/utf8"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/serving"
)

// tokenLogprob is a token with its probability, as chat answers have it.
type tokenLogprob struct {
	Token   string         `json:"token"`
	Logprob float32        `json:"logprob"`
	Bytes   []int          `json:"bytes"`
	Top     []tokenLogprob `json:"top_logprobs,omitzero"` // nil within another's
}

// TokenText is a token as text; bytes that are not a character by themselves are shown as replacement characters.
func TokenText(s *serving.Service, id int32) string {
	return strings.ToValidUTF8(string(s.Token(id)), string(utf8.RuneError))
}

func logprob(s *serving.Service, id int32, logprob float32) tokenLogprob {
	t := tokenLogprob{Token: TokenText(s, id), Logprob: logprob, Bytes: []int{}}
	for _, b := range s.Token(id) {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// chatLogprobs are the log-probabilities of a token of a chat answer.
func chatLogprobs(s *serving.Service, c *ridge.Sampled) tokenLogprob {
	t := logprob(s, c.Token, c.Logprob)
	t.Top = []tokenLogprob{}
	for _, x := range c.Top {
		t.Top = append(t.Top, logprob(s, x.Token, x.Logprob))
	}
	return t
}

// textLogprobs are those of a completion: lists of one entry per token.
type textLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float32           `json:"token_logprobs"` // null of a prompt's first token, which nothing precedes
	Top      []map[string]float32 `json:"top_logprobs"`   // likewise
	Offsets  []int                `json:"text_offset"`    // in characters
}

// characters is how many characters begin in a token, whose ends may lie within some.
func characters(token []byte) (n int) {
	for _, b := range token {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}

// add appends a token that begins at an offset. The token itself is always among the top ones.
func (l *textLogprobs) add(s *serving.Service, c *ridge.Sampled, offset int) {
	l.Tokens = append(l.Tokens, TokenText(s, c.Token))
	own := finite(c.Logprob)
	l.Logprobs = append(l.Logprobs, &own)
	top := map[string]float32{}
	for _, x := range append(c.Top[:len(c.Top):len(c.Top)], ridge.Logprob{Token: c.Token, Logprob: c.Logprob}) {
		if text := TokenText(s, x.Token); !has(top, text) { // of tokens of the same text, as parts of characters can be, the likeliest stays
			top[text] = finite(x.Logprob)
		}
	}
	l.Top = append(l.Top, top)
	l.Offsets = append(l.Offsets, offset)
}

func has(m map[string]float32, key string) bool { _, ok := m[key]; return ok }

// addPrompt adds the tokens of a prompt, whose text is so many characters long: what is more in them, as a token that begins every text, comes before it.
func (l *textLogprobs) addPrompt(s *serving.Service, prompt []ridge.Sampled, length, top int) {
	offset := length
	for i := range prompt {
		offset -= characters(s.Token(prompt[i].Token))
	}
	for i := range prompt {
		l.add(s, likeliest(&prompt[i], top), max(offset, 0))
		offset += characters(s.Token(prompt[i].Token))
	}
	l.Logprobs[0], l.Top[0] = nil, nil
}

// finite is a log-probability as JSON can hold it: OpenAI's number for what cannot come.
func finite(x float32) float32 { return max(x, -9999) }
