package openai

import (
	"net/http"
	"strconv"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// loraField is an adapter of a request's field lora, which llama.cpp's server has: by its number in /lora-adapters or, beyond that, its name.
type loraField struct {
	ID    *int    `json:"id"`
	Name  string  `json:"name"`
	Scale float32 `json:"scale"`
}

// Adapters are those that a request asks for: the one that its model names, and those of its field lora; without that field, those that
// the server applies to all.
func (q *Sampling) Adapters(s *serving.Service) ([]ridge.UseAdapter, error) {
	var all []ridge.UseAdapter
	if !s.Is(q.Model) {
		all = append(all, ridge.UseAdapter{Name: q.Model, Scale: 1})
	}
	if q.LoRA == nil {
		return append(all, s.AppliedAdapters(q.Model)...), nil
	}
	for _, f := range q.LoRA {
		name := f.Name
		if f.ID != nil {
			a, ok := s.AdapterByID(*f.ID)
			if !ok {
				return nil, api.Invalid("lora", "lora names adapter %d; GET /lora-adapters lists those that there are", *f.ID)
			}
			name = a.Name
		}
		if !s.HasAdapter(name) {
			return nil, api.Invalid("lora", "lora names the adapter %q, which is not here", name)
		}
		all = append(all, ridge.UseAdapter{Name: name, Scale: f.Scale})
	}
	return all, nil
}

// Answered is the name under which an answer comes: that of the adapter, if the request named one as its model.
func (q *Sampling) Answered(s *serving.Service) string {
	if s.Is(q.Model) {
		return s.Name
	}
	return q.Model
}

// checkModel refuses a name that is neither the model's nor an adapter's.
func (q *Sampling) checkModel(s *serving.Service) error {
	if s.Is(q.Model) || s.Model != nil && s.HasAdapter(q.Model) {
		return nil
	}
	return &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Param: "model", Code: "model_not_found", Message: "there is no model " + strconv.Quote(q.Model) + " here; there is " + strconv.Quote(s.Name)}
}
