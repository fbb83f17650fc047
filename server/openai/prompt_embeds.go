package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// embedsList is prompts as vLLM's prompt_embeds has them: base64 of what torch.save writes of a tensor, or a list of that.
type embedsList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *embedsList) UnmarshalJSON(b []byte) error {
	var one string
	switch *l = nil; {
	case !api.Present(b):
	case json.Unmarshal(b, &one) == nil:
		*l = embedsList{one}
	case json.Unmarshal(b, (*[]string)(l)) != nil:
		return api.Invalid("prompt_embeds", "prompt_embeds should be base64 of what torch.save writes of a tensor, or an array of that")
	}
	return nil
}

// texts are the prompts of text and ids. Beside prompts of embeddings an empty text is none: OpenAI's clients send no request without one.
func (q *CompletionRequest) texts() *PromptList {
	if l := &q.Prompt; len(q.Embeds) > 0 && l.count() == 1 && len(l.Texts) == 1 && l.Texts[0] == "" {
		return &PromptList{}
	}
	return &q.Prompt
}

// embedded are the jobs of the prompts that are given as embeddings.
func (q *CompletionRequest) embedded(ctx context.Context, s *serving.Service, p ridge.Params) (all []serving.Job, err error) {
	if len(q.Embeds) > 0 && (q.Echo || q.Suffix != "") {
		return nil, api.Invalid("prompt_embeds", "prompt_embeds has no text, which echo and suffix are about; leave these out")
	}
	for i, text := range q.Embeds {
		p.Embeddings, err = serving.InLane(ctx, s, len(text), func() ([]float32, error) {
			file, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, api.Invalid("prompt_embeds", "prompt_embeds %d is no base64: %v", i, err)
			}
			rows, err := s.ReadEmbeddings(file)
			if err != nil {
				return nil, api.Invalid("prompt_embeds", "prompt_embeds %d: %v", i, err)
			}
			return rows, nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, serving.Jobs([][]int32{make([]int32, len(p.Embeddings)/s.Width())}, q.made(), p)...)
	}
	return all, nil
}
