package vllm

import (
	"net/http"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// tokenizeRequest is the body of POST /tokenize: a text, or a conversation. llama.cpp calls the text content.
type tokenizeRequest struct {
	openai.ChatRequest         // of which messages, tools and the template's variables count
	Prompt             *string `json:"prompt"`
	Special            *bool   `json:"add_special_tokens"` // around a prompt: those that the model expects; default true
	Strings            bool    `json:"return_token_strs"`
	Content            *string `json:"content"`
	AddSpecial         bool    `json:"add_special"` // around a content
	Pieces             bool    `json:"with_pieces"`
}

// Refuses lists no fields: those that do not concern the prompt are ignored.
func (q *tokenizeRequest) Refuses() map[string]api.Refusal { return nil }

// tokenize is POST /tokenize: the token ids that a text becomes, or the prompt of a conversation.
func (s *API) tokenize(w http.ResponseWriter, r *http.Request) (any, error) {
	var q tokenizeRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	ids, err := q.ids(r, s.Service)
	if err != nil {
		return nil, err
	}
	if q.Content != nil && q.Pieces {
		pieces := []any{}
		for _, id := range ids {
			pieces = append(pieces, map[string]any{"id": id, "piece": openai.TokenText(s.Service, id)})
		}
		return map[string]any{"tokens": pieces}, nil
	}
	body := map[string]any{"tokens": append([]int32{}, ids...), "count": len(ids), "max_model_len": s.Context(), "token_strs": nil}
	if q.Strings {
		texts := []string{}
		for _, id := range ids {
			texts = append(texts, openai.TokenText(s.Service, id))
		}
		body["token_strs"] = texts
	}
	return body, nil
}

func (q *tokenizeRequest) ids(r *http.Request, s *serving.Service) (ids []int32, err error) {
	switch {
	case q.Prompt != nil:
		all, err := s.Encode(r.Context(), []string{*q.Prompt}, q.Special == nil || *q.Special)
		if err != nil {
			return nil, err
		}
		return all[0], nil
	case q.Content != nil:
		all, err := s.Encode(r.Context(), []string{*q.Content}, q.AddSpecial)
		if err != nil {
			return nil, err
		}
		return all[0], nil
	case len(q.Messages) == 0:
		return nil, api.Invalid("prompt", "prompt, the text to tokenize, is missing, and so are messages")
	}
	_, ids, err = q.Tokens(r.Context(), s)
	return ids, err
}

// detokenize is POST /detokenize: {"tokens": ids} to {"prompt": text}, which llama.cpp calls content.
func (s *API) detokenize(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	for i, id := range q.Tokens {
		if id < 0 || int(id) >= s.Vocab() {
			return nil, api.Invalid("tokens", "token %d is %d; the vocabulary has %d", i, id, s.Vocab())
		}
	}
	text := s.Decode(q.Tokens)
	return map[string]string{"prompt": text, "content": text}, nil
}

// tokenizerInfo is GET /tokenizer_info: what a client has to know to write prompts itself, under the names of Hugging Face's tokenizer_config.json.
func (s *API) tokenizerInfo(http.ResponseWriter, *http.Request) (any, error) {
	about, err := s.About()
	if err != nil {
		return nil, err
	}
	bos, eos := s.SpecialTokens()
	return map[string]any{"bos_token": api.OrNull(bos), "eos_token": api.OrNull(eos), "pad_token": nil, "chat_template": api.OrNull(about.Template), "model_max_length": s.Context()}, nil
}

// render is POST /v1/chat/completions/render: the prompt that a conversation becomes.
func (s *API) render(w http.ResponseWriter, r *http.Request) (any, error) {
	var q openai.ChatRequest
	if err := s.ReadBody(w, r, &q); err != nil {
		return nil, err
	}
	text, ids, err := q.Tokens(r.Context(), s.Service)
	if err != nil {
		return nil, err
	}
	return map[string]any{"prompt": text, "token_ids": ids}, nil
}
