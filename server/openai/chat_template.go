package openai

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/server/api"
)

// templateFields are the fields of a chat request that say how its prompt is written.
type templateFields struct {
	ReasoningEffort string            `json:"reasoning_effort"` // a variable of templates that know it
	Documents       []json.RawMessage `json:"documents"`
	AddGeneration   *bool             `json:"add_generation_prompt"`  // default true
	ContinueFinal   bool              `json:"continue_final_message"` // the answer continues the last message
}

func (q *ChatRequest) checkTemplate() error {
	if !q.ContinueFinal {
		return nil
	}
	if q.AddGeneration != nil && *q.AddGeneration {
		return api.Invalid("continue_final_message", "continue_final_message continues the last message and add_generation_prompt begins another; set one of them")
	}
	if last := q.Messages[len(q.Messages)-1].Role; last != "assistant" {
		return api.Invalid("continue_final_message", "continue_final_message continues the last message, whose role is %s and must be assistant", last)
	}
	return nil
}

// Thinking is the template variables that turn reasoning on or off: enable_thinking is Qwen's, GLM's
// and others', thinking DeepSeek's and Granite's.
func Thinking(on bool) map[string]json.RawMessage {
	value := json.RawMessage(strconv.FormatBool(on))
	return map[string]json.RawMessage{"enable_thinking": value, "thinking": value}
}

// opensAnswer reports whether the prompt ends where a new answer begins.
func (q *ChatRequest) opensAnswer() bool {
	return !q.ContinueFinal && (q.AddGeneration == nil || *q.AddGeneration)
}

// templateArgs are the variables that the request gives the template.
func (q *ChatRequest) templateArgs() map[string]json.RawMessage {
	if q.ReasoningEffort == "" {
		return q.TemplateArgs
	}
	args := map[string]json.RawMessage{"reasoning_effort": api.Quoted(q.ReasoningEffort)}
	maps.Copy(args, q.TemplateArgs)
	return args
}

// openEnd cuts off what the template wrote after the last message's text, so that the answer continues it.
func (q *ChatRequest) openEnd(p chat.Prompt, messages []chat.Message) (chat.Prompt, error) {
	prompt := p.Text()
	m := messages[len(messages)-1]
	text := m.Content
	if n := len(m.Parts); n > 0 {
		text = m.Parts[n-1].Text
	}
	// Templates often trim what they write.
	for _, form := range []string{text, strings.TrimSpace(text)} {
		if at := strings.LastIndex(prompt, form); form != "" && at >= 0 {
			return p.Cut(at + len(form)), nil
		}
	}
	return p, api.Invalid("continue_final_message", "the model's chat template changes the last message's text, so the answer cannot continue it")
}
