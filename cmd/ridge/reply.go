package main

import (
	"context"
	"io"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// reply takes an answer apart as it comes: what the model thinks first, and what it says. On a terminal the thoughts are shown, dimmed; elsewhere only the answer is written.
type reply struct {
	parser             *chat.OutputParser // nil: everything is the answer
	out                io.Writer
	thoughts           func(began bool) // called before the first thought and behind the last; nil: thoughts are not shown
	thinking           bool
	content, reasoning strings.Builder
}

// newReply is for the answer to a conversation, whose settings it changes so that the parts can be told apart.
func newReply(ctx context.Context, m *ridge.Model, conversation []chat.Message, p *ridge.Params, out io.Writer) *reply {
	r := &reply{out: out}
	style := m.Style()
	if style.ThinkOpen == "" && style.Tools != chat.Harmony || len(conversation) == 0 {
		return r
	}
	prompt, err := m.Render(ctx, chat.Request{Messages: conversation, AddGenerationPrompt: true})
	if err != nil {
		return r // the answer fails of the same
	}
	p.Special = true
	r.parser = chat.NewOutputParser(chat.OutputOptions{Style: style, InReasoning: style.StartsInReasoning(prompt)})
	return r
}

// Write implements io.Writer: it takes the model's output.
func (r *reply) Write(b []byte) (int, error) {
	if r.parser == nil {
		r.content.Write(b)
		return r.out.Write(b)
	}
	for _, d := range r.parser.Feed(string(b)) {
		if err := r.take(d); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// end takes what was held back.
func (r *reply) end() error {
	if r.parser == nil {
		return nil
	}
	for _, d := range r.parser.Finish() {
		if err := r.take(d); err != nil {
			return err
		}
	}
	r.think(false)
	return nil
}

func (r *reply) take(d chat.Delta) error {
	r.think(d.Reasoning != "")
	r.content.WriteString(d.Content)
	r.reasoning.WriteString(d.Reasoning)
	text := d.Content
	if r.thoughts != nil {
		text += d.Reasoning
	}
	if text == "" {
		return nil
	}
	_, err := io.WriteString(r.out, text)
	return err
}

// think begins or ends what is shown as thoughts.
func (r *reply) think(on bool) {
	if r.thinking == on || r.thoughts == nil {
		return
	}
	r.thinking = on
	r.thoughts(on)
}

// dimmed shows thoughts on a terminal. Colours go past out, which counts columns.
func (i ink) dimmed(terminal, out io.Writer) func(began bool) {
	return func(began bool) {
		switch { // what cannot be written is noticed by the text that follows
		case began && bool(i):
			_, _ = io.WriteString(terminal, dim)
		case began:
			_, _ = io.WriteString(out, "Thinking:\n")
		default:
			if i {
				_, _ = io.WriteString(terminal, plain)
			}
			_, _ = io.WriteString(out, "\n\n")
		}
	}
}
