package modeldir

import (
	"errors"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/tokenizer"
	"github.com/ridge-llm/ridge/weights"
)

// Template compiles the model's chat template, or the text of another in its place; nil, without an error, when there is
// neither.
func (d *Dir) Template(t *tokenizer.Tokenizer, other string) (*chat.Template, error) {
	s, err := d.TemplateSources(t)
	if err != nil {
		return nil, err
	}
	if other != "" {
		s.Name, s.Default, s.ToolUse = "the given chat template", other, ""
		if bos, ok := t.BOS(); ok && startsWith(t, bos) && s.Tokens != nil {
			s.Tokens["add_bos_token"] = "true" // for templates made of those that leave it to the tokenizer (chat/gotemplate)
		}
	}
	template, err := chat.New(s)
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, nil
	}
	return template, err
}

// startsWith reports whether texts begin with a token.
func startsWith(t *tokenizer.Tokenizer, bos int32) bool {
	ids, err := t.Encode("", tokenizer.Options{Special: true})
	return err == nil && len(ids) > 0 && ids[0] == bos
}

// The keys of a GGUF file's chat templates.
const (
	TemplateKey     = "tokenizer.chat_template"
	ToolTemplateKey = TemplateKey + ".tool_use"
)

// TemplateSources are the model's chat templates as written, and the tokens they print; empty for a model that does not
// chat.
func (d *Dir) TemplateSources(t *tokenizer.Tokenizer) (chat.Sources, error) {
	if d.Source.Kind != weights.GGUF {
		return chat.ReadDir(d.Source.Dir())
	}
	s := chat.Sources{Name: d.Source.Path, Tokens: map[string]string{}}
	s.Default, _ = d.Source.Metadata[TemplateKey].(string)
	s.ToolUse, _ = d.Source.Metadata[ToolTemplateKey].(string)
	if id, ok := t.BOS(); ok {
		s.Tokens["bos_token"], _ = t.Token(id)
	}
	if id, ok := t.EOS(); ok {
		s.Tokens["eos_token"], _ = t.Token(id)
	}
	return s, nil
}
