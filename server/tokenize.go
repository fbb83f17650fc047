package server

import "net/http"

// tokenizeRequest is the body of POST /tokenize: a text, or a conversation.
type tokenizeRequest struct {
	chatRequest         // of which messages, tools and the template's variables count
	Prompt      *string `json:"prompt"`
	Special     *bool   `json:"add_special_tokens"` // around a prompt: those that the model expects; default true
	Strings     bool    `json:"return_token_strs"`
}

func (q *tokenizeRequest) refuses() map[string]refusal { return nil }

// tokenize is POST /tokenize: the token ids that a text becomes, or the prompt of a conversation.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) (any, error) {
	var q tokenizeRequest
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	ids, err := q.ids(r, s)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"tokens": append([]int32{}, ids...), "count": len(ids), "max_model_len": s.model.Context(), "token_strs": nil}
	if q.Strings {
		texts := []string{}
		for _, id := range ids {
			texts = append(texts, s.text(id))
		}
		body["token_strs"] = texts
	}
	return body, nil
}

func (q *tokenizeRequest) ids(r *http.Request, s *Server) (ids []int32, err error) {
	switch {
	case q.Prompt != nil:
		return s.model.Encode(*q.Prompt, q.Special == nil || *q.Special)
	case len(q.Messages) == 0:
		return nil, bad("prompt", "prompt, the text to tokenize, is missing, and so are messages")
	}
	_, ids, err = q.tokens(r.Context(), s)
	return ids, err
}

// detokenize is POST /detokenize: {"tokens": ids} to {"prompt": text}.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := decode(w, r, &q); err != nil {
		return nil, err
	}
	for i, id := range q.Tokens {
		if id < 0 || int(id) >= s.model.Vocab() {
			return nil, bad("tokens", "token %d is %d; the vocabulary has %d", i, id, s.model.Vocab())
		}
	}
	return map[string]string{"prompt": s.model.Decode(q.Tokens)}, nil
}
