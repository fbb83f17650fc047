package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/ridge-llm/ridge"
)

// ollamaEmbed is the body of POST /api/embed, and of the older /api/embeddings, which has prompt in place of input and
// gives one vector back.
type ollamaEmbed struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"` // a string or some
	Prompt     string          `json:"prompt"`
	Truncate   *bool           `json:"truncate"` // default true: what the context has no room for is left out
	Dimensions *int            `json:"dimensions"`
}

// texts are the texts to embed; of nothing there is no embedding, which is no error in this API.
func (q *ollamaEmbed) texts(old bool) ([]string, error) {
	var one string
	var some []string
	switch {
	case old && q.Prompt == "":
		return nil, nil
	case old:
		return []string{q.Prompt}, nil
	case !present(q.Input):
		return nil, nil
	case json.Unmarshal(q.Input, &one) == nil:
		if one == "" {
			return nil, nil
		}
		return []string{one}, nil
	case json.Unmarshal(q.Input, &some) == nil:
		return some, nil
	}
	return nil, bad("input", "input should be a string or an array of strings")
}

// tokens are the texts as token ids, cut to the context if that is allowed.
func (q *ollamaEmbed) tokens(s *Server, old bool) ([][]int32, error) {
	texts, err := q.texts(old)
	if err != nil {
		return nil, err
	}
	var all [][]int32
	for _, text := range texts {
		ids, err := s.model.Encode(text, true)
		if err != nil {
			return nil, err
		}
		if q.Truncate == nil || *q.Truncate {
			ids = ids[:min(len(ids), s.model.Context())]
		}
		all = append(all, ids)
	}
	return all, nil
}

// ollamaEmbeddings is POST /api/embed and, if old is set, /api/embeddings.
func (s *Server) ollamaEmbeddings(old bool) endpoint {
	return func(w http.ResponseWriter, r *http.Request) (any, error) { return s.answerOllamaEmbed(w, r, old) }
}

func (s *Server) answerOllamaEmbed(w http.ResponseWriter, r *http.Request, old bool) (any, error) {
	began := time.Now()
	var q ollamaEmbed
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	if err := (&sampling{Model: ollamaName(q.Model)}).check(s); err != nil {
		return nil, err
	}
	if err := checkDimensions(s, q.Dimensions); err != nil {
		return nil, err
	}
	texts, err := q.tokens(s, old)
	if err != nil {
		return nil, err
	}
	vectors, tokens, err := s.embed(r.Context(), texts, q.Dimensions, ridge.Greedy())
	if err != nil {
		return nil, err
	}
	switch {
	case old && len(vectors) == 0:
		return map[string]any{"embedding": []float32{}}, nil
	case old:
		return map[string]any{"embedding": vectors[0]}, nil
	}
	return map[string]any{"model": s.options.Name, "embeddings": vectors, "total_duration": time.Since(began), "load_duration": 0, "prompt_eval_count": tokens}, nil
}
