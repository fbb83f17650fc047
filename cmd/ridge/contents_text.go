package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/weights"
)

// tokenizerContents is what ridge show says about a tokenizer.
type tokenizerContents struct {
	Kind       string         `json:"kind"`
	Vocabulary int            `json:"vocabulary"`
	Special    int            `json:"special"`
	BOS        *specialToken  `json:"bos"` // null: there is none
	EOS        *specialToken  `json:"eos"`
	Ends       []specialToken `json:"ends"` // tokens that end an answer
}

// specialToken is a token with its spelling.
type specialToken struct {
	ID   int32  `json:"id"`
	Text string `json:"text"`
}

// readText looks at the tokenizer and the templates; a model may have neither.
func (c *contents) readText(b *modeldir.Dir) error {
	if b.Source.Kind == weights.GGUF && b.Source.Metadata["tokenizer.ggml.tokens"] == nil {
		return nil
	}
	t, err := b.Tokenizer()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	named := func(id int32, ok bool) *specialToken {
		if !ok {
			return nil
		}
		text, _ := t.Token(id)
		return &specialToken{id, text}
	}
	s := &tokenizerContents{Kind: tokenizerKind(b), Vocabulary: t.VocabSize(), BOS: named(t.BOS()), EOS: named(t.EOS())}
	for _, id := range t.Ends() {
		s.Ends = append(s.Ends, *named(id, true))
	}
	for id := range int32(t.VocabSize()) {
		if t.IsSpecial(id) {
			s.Special++
		}
	}
	c.Tokenizer = s
	templates, err := b.TemplateSources(t)
	c.Template, c.ToolTemplate = templates.Default, templates.ToolUse
	return err
}

// special lists BOS, EOS and the tokens that end an answer besides it.
func (t *tokenizerContents) special() string {
	parts := []string{"no bos", "no eos"}
	if t.BOS != nil {
		parts[0] = fmt.Sprintf("bos %s (%d)", t.BOS.Text, t.BOS.ID)
	}
	if t.EOS != nil {
		parts[1] = fmt.Sprintf("eos %s (%d)", t.EOS.Text, t.EOS.ID)
	}
	more := slices.Clone(t.Ends)
	if t.EOS != nil {
		more = slices.DeleteFunc(more, func(s specialToken) bool { return s.ID == t.EOS.ID })
	}
	for _, s := range more {
		parts = append(parts, fmt.Sprintf("%s (%d) ends too", s.Text, s.ID))
	}
	return strings.Join(parts, ", ")
}

// tokenizerKind is the family of the vocabulary as the file names it.
func tokenizerKind(b *modeldir.Dir) string {
	if b.Source.Kind == weights.GGUF {
		kind, _ := b.Source.Metadata["tokenizer.ggml.model"].(string)
		if pre, ok := b.Source.Metadata["tokenizer.ggml.pre"].(string); ok {
			kind += " (" + pre + ")"
		}
		return kind
	}
	var file struct {
		Model struct{ Type string } `json:"model"`
	}
	data, err := b.Source.Sidecar("tokenizer.json")
	if err != nil || json.Unmarshal(data, &file) != nil || file.Model.Type == "" {
		return "tokenizer.json"
	}
	return file.Model.Type
}
