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
	Logprobs []float32            `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"` // in characters
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
	l.Logprobs = append(l.Logprobs, c.Logprob)
	top := map[string]float32{TokenText(s, c.Token): c.Logprob}
	for _, x := range c.Top {
		top[TokenText(s, x.Token)] = x.Logprob
	}
	l.Top = append(l.Top, top)
	l.Offsets = append(l.Offsets, offset)
}
