package openai

import (
	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/serving"
)

// Usage is what a request took, in tokens.
type Usage struct {
	Prompt     int           `json:"prompt_tokens"`
	Completion int           `json:"completion_tokens"`
	Total      int           `json:"total_tokens"`
	Details    promptDetails `json:"prompt_tokens_details"`

	transfer *ridge.RemoteKV // of the first answer
}

type promptDetails struct {
	Cached int `json:"cached_tokens"`
}

// add counts an answer that has finished.
func (u *Usage) add(j *serving.Job, f *ridge.Finish) {
	if j.First {
		u.Prompt += f.Prompt
		u.Details.Cached += f.Cached
		u.transfer = f.Remote
	}
	u.Completion += f.Output
	u.Total = u.Prompt + u.Completion
}

// begun is the usage of answers that have no tokens yet. What of their prompts is cached is known at their end.
func begun(all []serving.Job) (u Usage) {
	for i := range all {
		if all[i].First {
			u.Prompt += len(all[i].Prompt)
		}
	}
	u.Total = u.Prompt
	return u
}

// token counts a token of an unfinished answer.
func (u *Usage) token() {
	u.Completion++
	u.Total++
}

// tell writes into an event what the options want of it: null before the end, or with continuous_usage_stats the
// usage so far.
func (o *streamOptions) tell(event map[string]any, soFar Usage) {
	switch {
	case o == nil || !o.IncludeUsage:
	case o.Continuous:
		event["usage"] = soFar
	default:
		event["usage"] = nil
	}
}

// tellTransfer writes into a whole answer what another server, which goes on from its prompt, is to be told.
func (u *Usage) tellTransfer(body map[string]any) {
	if u.transfer != nil {
		body["kv_transfer_params"] = u.transfer
	}
}
