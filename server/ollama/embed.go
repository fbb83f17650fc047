package ollama

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// embedRequest is the body of POST /api/embed, and of the older /api/embeddings, which has prompt in place of input and
// gives one vector back.
type embedRequest struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"` // a string or some
	Prompt     string          `json:"prompt"`
	Truncate   *bool           `json:"truncate"` // default true: what the context has no room for is left out
	Dimensions *int            `json:"dimensions"`
}

// texts are the texts to embed; of nothing there is no embedding, which is no error in this API.
func (q *embedRequest) texts(old bool) ([]string, error) {
	var one string
	var some []string
	switch {
	case old && q.Prompt == "":
		return nil, nil
	case old:
		return []string{q.Prompt}, nil
	case !api.Present(q.Input):
		return nil, nil
	case json.Unmarshal(q.Input, &one) == nil:
		if one == "" {
			return nil, nil
		}
		return []string{one}, nil
	case json.Unmarshal(q.Input, &some) == nil:
		return some, nil
	}
	return nil, api.Invalid("input", "input should be a string or an array of strings")
}

// tokens are the texts as token ids, cut to the context if that is allowed.
func (q *embedRequest) tokens(ctx context.Context, s *serving.Service, old bool) ([][]int32, error) {
	texts, err := q.texts(old)
	if err == nil {
		err = openai.CheckInputs(len(texts))
	}
	if err != nil {
		return nil, err
	}
	if q.Truncate == nil || *q.Truncate {
		return s.EncodeStarts(ctx, texts)
	}
	return s.EncodeInputs(ctx, texts)
}

// ollamaEmbeddings is POST /api/embed and, if old is set, /api/embeddings.
func (s *API) ollamaEmbeddings(old bool) api.Endpoint {
	return func(w http.ResponseWriter, r *http.Request) (any, error) { return s.answerOllamaEmbed(w, r, old) }
}

func (s *API) answerOllamaEmbed(w http.ResponseWriter, r *http.Request, old bool) (any, error) {
	began := time.Now()
	var q embedRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	named := &openai.Sampling{Model: modelName(q.Model)}
	if err := named.Check(s.Service); err != nil {
		return nil, err
	}
	if err := openai.CheckDimensions(s.Service, q.Dimensions); err != nil {
		return nil, err
	}
	texts, err := q.tokens(r.Context(), s.Service, old)
	if err != nil {
		return nil, err
	}
	p := ridge.Greedy()
	if p.Adapters, err = named.Adapters(s.Service); err != nil {
		return nil, err
	}
	vectors, tokens, err := openai.EmbedTokens(r.Context(), s.Service, texts, q.Dimensions, p)
	if err != nil {
		return nil, err
	}
	switch {
	case old && len(vectors) == 0:
		return map[string]any{"embedding": []float32{}}, nil
	case old:
		return map[string]any{"embedding": vectors[0]}, nil
	}
	return map[string]any{"model": s.Name, "embeddings": vectors, "total_duration": time.Since(began), "load_duration": 0, "prompt_eval_count": tokens}, nil
}
