package openai

import (
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
	switch {
	case json.Unmarshal(b, &one) == nil:
		*l = embedsList{one}
	case json.Unmarshal(b, (*[]string)(l)) != nil:
		return api.Invalid("prompt_embeds", "prompt_embeds should be base64 of what torch.save writes of a tensor, or an array of that")
	}
	return nil
}

// embedded are the jobs of the prompts that are given as embeddings.
func (q *CompletionRequest) embedded(s *serving.Service, p ridge.Params) (all []serving.Job, err error) {
	if len(q.Embeds) > 0 && (q.Echo || q.Suffix != "") {
		return nil, api.Invalid("prompt_embeds", "prompt_embeds has no text, which echo and suffix are about; leave these out")
	}
	for i, text := range q.Embeds {
		file, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, api.Invalid("prompt_embeds", "prompt_embeds %d is no base64: %v", i, err)
		}
		if p.Embeddings, err = s.ReadEmbeddings(file); err != nil {
			return nil, api.Invalid("prompt_embeds", "prompt_embeds %d: %v", i, err)
		}
		all = append(all, serving.Jobs([][]int32{make([]int32, len(p.Embeddings)/s.Width())}, q.made(), p)...)
	}
	return all, nil
}
