package server

import "net/http"

func (s *Server) entry() map[string]any {
	return map[string]any{"id": s.options.Name, "object": "model", "created": s.created.Unix(), "owned_by": "ridge", "max_model_len": s.model.Context()}
}

// models is GET /v1/models.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{s.entry()}})
}

// oneModel is GET /v1/models/NAME.
func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) {
	if err := (&sampling{Model: r.PathValue("name")}).check(s); err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, s.entry())
}

// health is GET /health: whether requests are taken now.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.model.Err(); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "stopping", "reason": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// version is GET /version.
func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": s.options.Version})
}

// tokenize is POST /tokenize: {"prompt": text} to {"tokens": ids}.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt  *string `json:"prompt"`
		Special *bool   `json:"add_special_tokens"` // those that the model expects around a text; default true
	}
	if err := decode(w, r, &q); err != nil {
		s.fail(w, r, err)
		return
	}
	if q.Prompt == nil {
		s.fail(w, r, bad("prompt", "prompt, the text to tokenize, is missing"))
		return
	}
	ids, err := s.model.Encode(*q.Prompt, q.Special == nil || *q.Special)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"tokens": append([]int32{}, ids...), "count": len(ids), "max_model_len": s.model.Context()})
}

// detokenize is POST /detokenize: {"tokens": ids} to {"prompt": text}.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := decode(w, r, &q); err != nil {
		s.fail(w, r, err)
		return
	}
	for i, id := range q.Tokens {
		if id < 0 || int(id) >= s.model.Vocab() {
			s.fail(w, r, bad("tokens", "token %d is %d; the vocabulary has %d", i, id, s.model.Vocab()))
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": s.model.Decode(q.Tokens)})
}
