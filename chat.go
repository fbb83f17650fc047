package ridge

import (
	"context"
	"iter"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/tokenizer"
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
		text, err := m.Render(ctx, r)
		if err != nil {
			return nil, err
		}
		// The template has written the tokens around the conversation; adding them would double them.
		return m.tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true})
	})
}

// Render is the prompt that a conversation becomes.
func (m *Model) Render(ctx context.Context, r chat.Request) (string, error) {
	if m.template == nil {
		return "", chat.ErrNoTemplate
	}
	return m.template.Render(ctx, r)
}
