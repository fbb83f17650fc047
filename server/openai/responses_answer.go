package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
)

// responsesAnswer is a chat answer in the form of the Responses API: a list of items, and a stream of events that
// each say which item, and which part of it, they belong to. The API has no event for a token whose text is held back; its
// log-probability comes with the next text, and the usage counts it.
type responsesAnswer struct {
	*ChatAnswer
	responder *api.Responder
	asked     *responsesRequest
	out       *api.Stream // nil: the answer is sent in one piece
	log       *eventLog   // nil: it is not made in the background, or not streamed
	keeper    *keeper     // nil: the answer is not kept
	sequence  int         // of the next event
	items     []*outputItem
	open      bool // the last item can still grow
}

// outputItem is an item of the answer.
type outputItem struct {
	kind     string // message, reasoning or function_call
	id       string
	text     strings.Builder // or the arguments of a call
	call     ToolCall        // its id and name
	logprobs []tokenLogprob  // of a message's tokens, if they are wanted
}

// responsePrefix begins the ids of responses.
const responsePrefix = "resp_"

// responseID is the answer's id, in the API's form.
func (a *responsesAnswer) responseID() string {
	return responsePrefix + strings.TrimPrefix(a.Id, "chatcmpl-")
}

// status is completed, or incomplete when there was room for no more.
func (a *responsesAnswer) status() string {
	if a.Choices[0].Finish == "length" {
		return "incomplete"
	}
	return "completed"
}

// response is the answer as an object, as far as it has come.
func (a *responsesAnswer) response(status string) map[string]any {
	items := []any{}
	for i, x := range a.items {
		done := !a.open || i < len(a.items)-1
		items = append(items, x.body(a, done))
	}
	q := a.asked
	var incomplete, usage any
	if status == "incomplete" {
		incomplete = map[string]string{"reason": "max_output_tokens"}
	}
	if status != inProgress {
		usage = a.responseUsage()
	}
	metadata := q.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	var format any = map[string]string{"type": "text"}
	if api.Present(q.Text.Format) {
		format = q.Text.Format
	}
	return map[string]any{
		"id": a.responseID(), "object": "response", "created_at": a.created, "status": status, "error": nil, "incomplete_details": incomplete,
		"model": a.Request.Answered(a.Service), "output": items, "usage": usage,
		"instructions": api.OrNull(q.Instructions), "max_output_tokens": q.MaxTokens, "temperature": q.Temperature, "top_p": q.TopP, "top_logprobs": q.TopLogprobs,
		"tools": append([]any{}, anys(q.Tools)...), "tool_choice": toolChoice(q), "parallel_tool_calls": q.Parallel == nil || *q.Parallel,
		"text": map[string]any{"format": format}, "reasoning": map[string]any{"effort": q.Reasoning.Effort, "summary": q.Reasoning.Summary},
		"metadata": metadata, "store": a.keeper != nil, "previous_response_id": api.OrNull(q.Previous), "background": q.Background, "conversation": q.Conversation.object(), "truncation": cmp.Or(q.Truncation, "disabled"),
	}
}

func (a *responsesAnswer) responseUsage() map[string]any {
	u := a.Usage
	return map[string]any{"input_tokens": u.Prompt, "input_tokens_details": map[string]int{"cached_tokens": u.Details.Cached},
		"output_tokens": u.Completion, "output_tokens_details": map[string]int{"reasoning_tokens": a.reasoningTokens()}, "total_tokens": u.Total}
}

// reasoningTokens is how many tokens the reasoning of the answer comes to when it is tokenized by itself.
func (a *responsesAnswer) reasoningTokens() int {
	text := a.Choices[0].Reasoning.String()
	if text == "" {
		return 0
	}
	ids, err := a.Service.Model.Encode(text, false)
	if err != nil {
		return 0 // a text the tokenizer cannot take was not made by it
	}
	return len(ids)
}

func anys[T any](list []T) []any {
	var all []any
	for _, x := range list {
		all = append(all, x)
	}
	return all
}

func toolChoice(q *responsesRequest) any {
	if api.Present(q.ToolChoice) {
		return q.ToolChoice
	}
	return "auto"
}

// body is the item as an object.
func (x *outputItem) body(a *responsesAnswer, done bool) map[string]any {
	status := "in_progress"
	if done {
		status = a.itemStatus(x)
	}
	b := map[string]any{"id": x.id, "type": x.kind, "status": status}
	switch x.kind {
	case "message":
		b["role"], b["content"] = "assistant", []any{}
		if done {
			b["content"] = []any{x.part()}
		}
	case "reasoning":
		b["summary"], b["content"] = []any{}, []any{}
		if done {
			b["content"] = []any{x.part()}
			if slices.Contains(a.asked.Include, sealedReasoning) {
				b["encrypted_content"] = seal(x.text.String())
			}
		}
	case "function_call":
		t := a.asked.called(x.call.Function.Name)
		b["call_id"], b["name"], b["arguments"] = x.call.ID, t.name, x.text.String()
		if t.space != "" {
			b["namespace"] = t.space
		}
	}
	return b
}

// itemStatus is incomplete for the item in which the answer was cut.
func (a *responsesAnswer) itemStatus(x *outputItem) string {
	if a.Choices[0].Finish == "length" && x == a.items[len(a.items)-1] {
		return "incomplete"
	}
	return "completed"
}

// part is the content of a message or of reasoning.
func (x *outputItem) part() map[string]any {
	if x.kind == "reasoning" {
		return map[string]any{"type": "reasoning_text", "text": x.text.String()}
	}
	return map[string]any{"type": "output_text", "text": x.text.String(), "annotations": []any{}, "logprobs": append([]tokenLogprob{}, x.logprobs...)}
}

// begin opens an item.
func (a *responsesAnswer) begin(kind string, call ToolCall) error {
	if err := a.end(); err != nil {
		return err
	}
	prefix := map[string]string{"message": "msg", "reasoning": "rs", "function_call": "fc"}[kind]
	x := &outputItem{kind: kind, id: fmt.Sprintf("%s_%s_%d", prefix, strings.TrimPrefix(a.Id, "chatcmpl-"), len(a.items)), call: call}
	a.items, a.open = append(a.items, x), true
	if err := a.send("response.output_item.added", map[string]any{"output_index": len(a.items) - 1, "item": x.body(a, false)}); err != nil || kind == "function_call" {
		return err
	}
	return a.sendPart("response.content_part.added", x, map[string]any{"part": x.part()})
}

// end closes the open item, if there is one.
func (a *responsesAnswer) end() error {
	if !a.open {
		return nil
	}
	a.open = false
	x := a.items[len(a.items)-1]
	x.takeLogprobs(&a.Choices[0]) // of tokens without a text of their own
	at := map[string]any{"item_id": x.id, "output_index": len(a.items) - 1}
	var err error
	switch x.kind {
	case "function_call":
		at["name"], at["arguments"] = a.asked.called(x.call.Function.Name).name, x.text.String()
		err = a.send("response.function_call_arguments.done", at)
	case "message":
		part := x.part()
		err = errors.Join(
			a.sendPart("response.output_text.done", x, map[string]any{"text": part["text"], "logprobs": part["logprobs"]}),
			a.sendPart("response.content_part.done", x, map[string]any{"part": part}))
	case "reasoning":
		err = errors.Join(
			a.sendPart("response.reasoning_text.done", x, map[string]any{"text": x.text.String()}),
			a.sendPart("response.content_part.done", x, map[string]any{"part": x.part()}))
	}
	return errors.Join(err, a.send("response.output_item.done", map[string]any{"output_index": len(a.items) - 1, "item": x.body(a, true)}))
}

// add takes a piece of the answer.
func (a *responsesAnswer) add(j *serving.Job, p ridge.Piece) error {
	for _, d := range a.Take(j, p) {
		if err := a.grow(d); err != nil {
			return err
		}
	}
	if p.Finish != nil {
		return a.end()
	}
	return nil
}

// grow adds what a delta brings to the open item, or to a new one of its kind.
func (a *responsesAnswer) grow(d Delta) error {
	kind, text, event, fresh := "message", d.Content, "response.output_text.delta", false
	var call ToolCall
	switch {
	case len(d.ToolCalls) > 0:
		call = d.ToolCalls[0]
		kind, text, event, fresh = "function_call", call.Function.Arguments, "response.function_call_arguments.delta", call.ID != ""
	case d.ReasoningContent != "":
		kind, text, event = "reasoning", d.ReasoningContent, "response.reasoning_text.delta"
	}
	if text == "" && !fresh {
		return nil
	}
	if fresh || !a.open || a.items[len(a.items)-1].kind != kind {
		if err := a.begin(kind, call); err != nil {
			return err
		}
	}
	x := a.items[len(a.items)-1]
	x.text.WriteString(text)
	logprobs := x.takeLogprobs(&a.Choices[0])
	switch {
	case text == "":
		return nil
	case kind == "function_call":
		return a.send(event, map[string]any{"item_id": x.id, "output_index": len(a.items) - 1, "delta": text})
	case kind == "message":
		return a.sendPart(event, x, map[string]any{"delta": text, "logprobs": logprobs})
	}
	return a.sendPart(event, x, map[string]any{"delta": text})
}

// takeLogprobs moves the log-probabilities of the tokens since the last delta to a message, and returns them. Those of other
// items are dropped.
func (x *outputItem) takeLogprobs(c *ChatState) []tokenLogprob {
	fresh := append([]tokenLogprob{}, c.Logprobs...)
	if c.Logprobs = nil; x.kind != "message" {
		return nil
	}
	x.logprobs = append(x.logprobs, fresh...)
	return fresh
}

// sendPart sends an event about the only part of the newest item.
func (a *responsesAnswer) sendPart(name string, x *outputItem, body map[string]any) error {
	body["item_id"], body["output_index"], body["content_index"] = x.id, len(a.items)-1, 0
	return a.send(name, body)
}

// send sends an event with its number, if the answer is streamed.
func (a *responsesAnswer) send(name string, body map[string]any) error {
	if a.out == nil && a.log == nil {
		return nil
	}
	body["type"], body["sequence_number"] = name, a.sequence
	a.sequence++
	if a.log == nil {
		return a.out.SendNamed(name, body)
	}
	e, err := newEvent(name, body)
	if err == nil {
		a.log.add(e, false)
	}
	return err
}

func newEvent(name string, body map[string]any) (event, error) {
	raw, err := json.Marshal(body)
	return event{name, raw}, err
}

// announce sends the events before the first of an answer.
func (a *responsesAnswer) announce() error {
	for _, name := range []string{"response.created", "response.in_progress"} {
		if err := a.send(name, map[string]any{"response": a.response(inProgress)}); err != nil {
			return err
		}
	}
	return nil
}

// stream sends the answer. The first event waits for the first token, so that a refused request gets its own status.
func (a *responsesAnswer) stream(ctx context.Context, all []serving.Job) error {
	err := a.Service.Run(ctx, all, func(j *serving.Job, p ridge.Piece) error {
		if a.sequence == 0 {
			if err := a.announce(); err != nil {
				return err
			}
		}
		return a.add(j, p)
	})
	if err != nil {
		return err
	}
	return a.send("response."+a.status(), map[string]any{"response": a.final(a.out.W)})
}

// fail ends the stream with an error: as an answer of its own if nothing has been sent.
func (a *responsesAnswer) fail(r *http.Request, err error) {
	if !a.out.Begun {
		a.responder.Fail(a.out.W, r, err)
		return
	}
	e := a.responder.Error(a.out.W, r, err)
	code := cmp.Or(e.Code, e.Kind)
	failed := a.response("failed")
	failed["error"] = map[string]string{"code": code, "message": e.Message}
	// The client may have gone.
	_ = errors.Join(a.send("error", map[string]any{"code": code, "message": e.Message, "param": api.OrNull(e.Param)}), a.send("response.failed", map[string]any{"response": failed}))
}
