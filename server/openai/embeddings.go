package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// embeddingRequest is the body of POST /v1/embeddings.
type embeddingRequest struct {
	Model      string     `json:"model"`
	Input      PromptList `json:"input"`
	Format     string     `json:"encoding_format"` // float or base64
	Dimensions *int       `json:"dimensions"`
	Priority   int        `json:"priority"`
	CacheSalt  string     `json:"cache_salt"`
}

// MaxInputs is the most texts one request may bring, OpenAI's limit.
const MaxInputs = 2048

// check validates the fields.
func (q *embeddingRequest) check(s *serving.Service) error {
	if err := (&Sampling{Model: q.Model}).Check(s); err != nil {
		return err
	}
	if q.Format != "" && q.Format != "float" && q.Format != "base64" {
		return api.Invalid("encoding_format", "encoding_format is %q; float and base64 are possible", q.Format)
	}
	if err := CheckInputs(q.Input.count()); err != nil {
		return err
	}
	return CheckDimensions(s, q.Dimensions)
}

// CheckDimensions refuses a model without embeddings, and a number of dimensions that it does not have. n may be nil.
func CheckDimensions(s *serving.Service, n *int) error {
	width := s.Width()
	switch {
	case width == 0:
		return api.Invalid("model", "the model %q makes no embeddings", s.Name)
	case n != nil && (*n < 1 || *n > width):
		return api.Invalid("dimensions", "dimensions is %d; the model's embeddings have %d numbers, of which the first 1 to %d can be asked for", *n, width, width)
	}
	return nil
}

// CheckInputs refuses more texts than are embedded at once.
func CheckInputs(n int) error {
	if n > MaxInputs {
		return api.Invalid("input", "there are %d texts; %d at most are embedded at once", n, MaxInputs)
	}
	return nil
}

// EmbedTokens makes the embeddings of texts given as tokens, cut to so many dimensions, with what they took.
func EmbedTokens(ctx context.Context, s *serving.Service, texts [][]int32, dimensions *int, p ridge.Params) (vectors [][]float32, tokens int, err error) {
	vectors = make([][]float32, len(texts))
	// Submitting a few at a time keeps one request from filling the queue.
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * MaxChoices)
	for i, ids := range texts {
		tokens += len(ids)
		group.Go(func() error {
			return serving.Contained(func() error {
				e, err := s.EmbedTokens(ctx, ids, p)
				if vectors[i] = e.Vector; dimensions != nil && err == nil {
					vectors[i] = shorten(e.Vector, *dimensions)
				}
				return err
			})
		})
	}
	err = group.Wait()
	if err == nil {
		s.CountPrompt(tokens)
	}
	return vectors, tokens, err
}

// shorten keeps the first n numbers, with length 1 again, as models trained for it (Matryoshka, arXiv:2205.13147) want.
func shorten(v []float32, n int) []float32 {
	var square float64
	for _, x := range v[:n] {
		square += float64(x) * float64(x)
	}
	short := make([]float32, n)
	if square == 0 {
		return short
	}
	for i := range short {
		short[i] = float32(float64(v[i]) / math.Sqrt(square))
	}
	return short
}

// embeddings is POST /v1/embeddings.
func (s *API) embeddings(w http.ResponseWriter, r *http.Request) (any, error) {
	var q embeddingRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, renamed(err, "input")
	}
	return q.answer(r.Context(), s.Service)
}

// answer is the whole answer.
func (q *embeddingRequest) answer(ctx context.Context, s *serving.Service) (any, error) {
	if err := q.check(s); err != nil {
		return nil, err
	}
	texts, err := q.Input.tokens(ctx, s)
	if err != nil {
		return nil, renamed(err, "input")
	}
	p := ridge.Greedy()
	if p.Adapters, err = (&Sampling{Model: q.Model}).Adapters(s); err != nil {
		return nil, err
	}
	if p.Priority, p.Salt = q.Priority, q.CacheSalt; serving.InBackground(ctx) {
		p.Priority = serving.BackgroundPriority
	}
	vectors, tokens, err := EmbedTokens(ctx, s, texts, q.Dimensions, p)
	if err != nil {
		return nil, err
	}
	data := []any{}
	for i, v := range vectors {
		var shown any = v
		if q.Format == "base64" {
			shown = littleEndian(v)
		}
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": shown})
	}
	return map[string]any{"object": "list", "data": data, "model": (&Sampling{Model: q.Model}).Answered(s), "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}}, nil
}

// littleEndian is a vector as OpenAI's base64 form has it: 32-bit floats, the low byte first.
func littleEndian(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// renamed is an error about a prompt where the field has another name.
func renamed(err error, field string) error {
	var refused *api.Error
	if errors.As(err, &refused) && refused.Param == "prompt" {
		return api.Invalid(field, "%s is missing, empty, or neither a string, token ids, nor an array of either", field)
	}
	return err
}
