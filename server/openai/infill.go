package openai

import (
	"context"
	"slices"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// InfillRequest is the body of llama.cpp's POST /infill: a completion of the text between two others.
type InfillRequest struct {
	CompletionRequest
	InputPrefix string       `json:"input_prefix"`
	InputSuffix string       `json:"input_suffix"`
	InputExtra  []InfillFile `json:"input_extra"`
}

// InfillFile is another file of the same project.
type InfillFile struct {
	Name string `json:"filename"`
	Text string `json:"text"`
}

// Job returns the job of the request. The prompt is text that goes on where the prefix ends, as of the line under the cursor.
func (q *InfillRequest) Job(ctx context.Context, s *serving.Service) ([]serving.Job, error) {
	if q.Suffix != "" {
		return nil, api.Invalid("suffix", "suffix is of /v1/completions; the text behind the gap is input_suffix here")
	}
	if len(q.Prompt.ids) > 0 || len(q.Prompt.Texts) > 1 {
		return nil, api.Invalid("prompt", "prompt should be one string; it goes on where input_prefix ends")
	}
	gap := ridge.Infill{Prefix: q.InputPrefix, Suffix: q.InputSuffix}
	for _, text := range q.Prompt.Texts {
		gap.Prefix += text
	}
	for _, f := range q.InputExtra {
		if f.Name == "" {
			f.Name = "tmp" // llama.cpp's
		}
		gap.Files = append(gap.Files, ridge.InfillFile(f))
	}
	return q.jobs(ctx, s, "input_suffix", []ridge.Infill{gap})
}

// gaps are the texts that a request with a suffix has to be filled in.
func (q *CompletionRequest) gaps() ([]ridge.Infill, error) {
	switch {
	case q.Suffix == "":
		return nil, nil
	case len(q.Prompt.ids) > 0:
		return nil, api.Invalid("suffix", "suffix needs a prompt of text; with token ids, write the model's own tokens for filling in the middle among them")
	case q.Echo:
		return nil, api.Invalid("echo", "echo is not possible with suffix: the prompt and the answer are apart")
	}
	gaps := make([]ridge.Infill, len(q.Prompt.Texts))
	for i, text := range q.Prompt.Texts {
		gaps[i] = ridge.Infill{Prefix: text, Suffix: q.Suffix}
	}
	return gaps, nil
}

// infill makes the prompts of gaps, and adds the tokens that end what fills them to p. field is what a client is told about where it is not possible.
func (q *CompletionRequest) infill(ctx context.Context, s *serving.Service, p *ridge.Params, field string, gaps []ridge.Infill) ([][]int32, error) {
	if !s.CanInfill() {
		return nil, api.Invalid(field, "%s is not supported by this model: its vocabulary has no tokens for filling in the middle; take a model made for it, such as Qwen2.5-Coder", field)
	}
	prompts, ends, err := s.EncodeInfills(ctx, gaps)
	if err == nil && !q.IgnoreEnd {
		p.StopIDs = slices.Concat(p.StopIDs, ends)
	}
	return prompts, err
}
