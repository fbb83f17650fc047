package bundle

import (
	"errors"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/tokenizer"
	"github.com/ridge-llm/ridge/weights"
)

// Template compiles the model's chat template; nil, without an error, when it brings none.
func (b *Bundle) Template(t *tokenizer.Tokenizer) (*chat.Template, error) {
	s, err := b.templateSources(t)
	if err != nil {
		return nil, err
	}
	template, err := chat.New(s)
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, nil
	}
	return template, err
}

func (b *Bundle) templateSources(t *tokenizer.Tokenizer) (chat.Sources, error) {
	if b.Source.Kind != weights.GGUF {
		return chat.ReadDir(b.Source.Dir())
	}
	s := chat.Sources{Name: b.Source.Path, Tokens: map[string]string{}}
	s.Default, _ = b.Source.Metadata["tokenizer.chat_template"].(string)
	s.ToolUse, _ = b.Source.Metadata["tokenizer.chat_template.tool_use"].(string)
	if id, ok := t.BOS(); ok {
		s.Tokens["bos_token"], _ = t.Token(id)
	}
	if id, ok := t.EOS(); ok {
		s.Tokens["eos_token"], _ = t.Token(id)
	}
	return s, nil
}
