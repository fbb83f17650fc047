package ridge

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/chat"
)

// CanChat reports whether the model brings a chat template.
func (m *Model) CanChat() bool { return m.template != nil }

// Chat answers a conversation: its messages are rendered with the model's chat template, up to where the assistant's
// answer begins. It fails with chat.ErrNoTemplate when the model brings none.
func (m *Model) Chat(ctx context.Context, messages []chat.Message, p Params) iter.Seq2[Piece, error] {
	return m.ChatRequest(ctx, chat.Request{Messages: messages, AddGenerationPrompt: true}, p)
}

// ChatRequest is Chat with all that a template can be given: tools, documents, and variables of its own.
func (m *Model) ChatRequest(ctx context.Context, r chat.Request, p Params) iter.Seq2[Piece, error] {
	return m.answer(ctx, p, func() ([]int32, error) {
		p, err := m.Prompt(ctx, r)
		if err != nil {
			return nil, err
		}
		return m.EncodePromptInput(p)
	})
}

// Render is the text of the prompt that a conversation becomes.
func (m *Model) Render(ctx context.Context, r chat.Request) (string, error) {
	p, err := m.Prompt(ctx, r)
	return p.Text(), err
}

// Prompt is the prompt that a conversation becomes. It knows which control tokens in it the template has written, and which are only text of
// the conversation's, unless Options.TrustContent is set.
func (m *Model) Prompt(ctx context.Context, r chat.Request) (chat.Prompt, error) {
	if m.template == nil {
		return chat.Prompt{}, chat.ErrNoTemplate
	}
	if r.Guard == nil {
		r.Guard = m.guard
	}
	r.RefuseSystem = r.RefuseSystem || m.noSystem
	return m.template.Prompt(ctx, r)
}

// newGuard knows the model's control tokens: the special ones, and those that its template writes.
func (m *Model) newGuard() *chat.Guard {
	special, bracketed := m.tokenizer.Controls()
	return chat.NewGuard(special, slices.DeleteFunc(bracketed, func(name string) bool { return !strings.Contains(m.template.Source(), name) }))
}
