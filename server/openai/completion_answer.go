package openai

import (
	"context"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// textAnswer is the answer to a completion request so far.
type textAnswer struct {
	service *serving.Service
	request *CompletionRequest
	id      string
	created int64
	choices []textState
	soFar   Usage
	usage   Usage // of what has finished
}

// textState is one choice so far.
type textState struct {
	prompt   string  // that the text begins with, for echo
	asked    []int32 // the prompt's ids, to be said
	ids      []int32 // of the answer, likewise
	text     strings.Builder
	offset   int // of the next token in the text, in characters
	tokens   int
	logprob  float64 // of all of them, for best_of
	logprobs *textLogprobs
	scores   []map[string]scored // of the prompt
	finish   string
}

func newTextAnswer(s *serving.Service, q *CompletionRequest, id string, all []serving.Job) *textAnswer {
	a := &textAnswer{service: s, request: q, id: "cmpl-" + id, created: time.Now().Unix(), choices: make([]textState, len(all)), soFar: begun(all)}
	for i := range all {
		a.choices[i].asked = all[i].Prompt
		if q.Echo {
			a.choices[i].prompt = q.Prompt.text(s, i/q.made(), all[i].Prompt)
			a.choices[i].offset = characters([]byte(a.choices[i].prompt))
		}
	}
	return a
}

// take adds a piece to its choice.
func (a *textAnswer) take(j *serving.Job, p ridge.Piece) {
	c := &a.choices[j.Index]
	c.text.WriteString(p.Text)
	c.ids = a.request.take(c.ids, p)
	if p.Token != nil {
		a.soFar.token()
		c.tokens, c.logprob = c.tokens+1, c.logprob+float64(p.Token.Logprob)
	}
	if n := a.request.PromptLogprobs; n != nil && len(p.Prompt) > 0 {
		c.scores = promptEntries(a.service, p.Prompt, *n)
	}
	if a.request.Logprobs != nil {
		a.takeLogprobs(c, p)
	}
	if p.Finish != nil {
		c.finish = string(p.Finish.Reason)
		a.usage.add(j, p.Finish)
	}
}

// takeLogprobs adds a piece's to its choice: of the answer's tokens and, with echo, of the prompt's and of the token that ended the answer, which vLLM lists too and
// lm-evaluation-harness drops as the one that was generated.
func (a *textAnswer) takeLogprobs(c *textState, p ridge.Piece) {
	if c.logprobs == nil {
		c.logprobs = &textLogprobs{}
	}
	if len(p.Prompt) > 0 && a.request.Echo {
		c.logprobs.addPrompt(a.service, p.Prompt, c.offset, *a.request.Logprobs)
	}
	if p.Token != nil {
		c.logprobs.add(a.service, likeliest(p.Token, *a.request.Logprobs), c.offset)
		c.offset += characters(a.service.Token(p.Token.Token))
	}
	if p.Finish != nil && p.Finish.End != nil && a.request.Echo {
		c.logprobs.add(a.service, likeliest(p.Finish.End, *a.request.Logprobs), c.offset)
	}
	if len(c.logprobs.Tokens) == 0 {
		c.logprobs = nil
	}
}

func (a *textAnswer) body(choices []any) map[string]any {
	return map[string]any{"id": a.id, "object": "text_completion", "created": a.created, "model": a.request.Answered(a.service), "choices": choices}
}

// choice is a choice in OpenAI's shape.
func (a *textAnswer) choice(c *textState, index int, text string, finish any) map[string]any {
	body := map[string]any{"index": index, "text": text, "logprobs": c.logprobs, "finish_reason": finish}
	if c.scores != nil {
		body["prompt_logprobs"] = c.scores
	}
	a.request.put(body, "prompt_token_ids", c.asked)
	a.request.put(body, "token_ids", c.ids)
	return body
}

// whole is the answer in one piece.
func (a *textAnswer) whole() map[string]any {
	choices := []any{}
	best := a.best()
	for i := range best {
		c := &best[i]
		choices = append(choices, a.choice(c, i, c.prompt+c.text.String(), c.finish))
	}
	body := a.body(choices)
	body["usage"] = a.usage
	a.usage.tellTransfer(body)
	return body
}

// stream sends an event for every token, since clients count them, even where its text is held back.
func (a *textAnswer) stream(ctx context.Context, out *api.Stream, all []serving.Job) error {
	err := a.service.Run(ctx, all, func(j *serving.Job, p ridge.Piece) error {
		c := &a.choices[j.Index]
		a.take(j, p)
		text := c.prompt + p.Text
		c.prompt = ""
		var finish any
		if p.Finish != nil {
			finish = c.finish
		}
		event := a.body([]any{a.choice(c, j.Index, text, finish)})
		c.asked, c.ids = nil, nil
		a.request.StreamOptions.tell(event, a.soFar)
		c.logprobs = nil
		return out.Send(event)
	})
	if err != nil {
		return err
	}
	if o := a.request.StreamOptions; o != nil && o.IncludeUsage {
		last := a.body([]any{})
		last["usage"] = a.usage
		if err := out.Send(last); err != nil {
			return err
		}
	}
	return out.End()
}
