// Package documents reads texts that come in documents, a JSON object a line: {"text": "…"}, or {"messages": […]}, which the model's own chat
// template renders.
package documents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/tokenizer"
)

// longest is how many bytes a line has at most.
const longest = 64 << 20

// Read is the tokens of each document of a file, as the model would be given them, cut after the first length. name is the file's, for errors.
// Conversations of a model without a chat template are their contents, a line each.
func Read(dir *modeldir.Dir, name string, file []byte, length int) ([][]int32, error) {
	t, err := dir.Tokenizer()
	if err != nil {
		return nil, err
	}
	template, err := dir.Template(t, "")
	if err != nil {
		return nil, err
	}
	var all [][]int32
	lines := bufio.NewScanner(bytes.NewReader(file))
	lines.Buffer(nil, longest)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var d struct {
			Text     string         `json:"text"`
			Messages []chat.Message `json:"messages"`
		}
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("line %d of %s: %w; a JSON object with text or messages is wanted", n, name, err)
		}
		tokens, err := encode(t, template, d.Text, d.Messages)
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", n, name, err)
		}
		if len(tokens) >= 2 {
			all = append(all, tokens[:min(length, len(tokens))])
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// encode is the tokens of a document.
func encode(t *tokenizer.Tokenizer, template *chat.Template, text string, messages []chat.Message) ([]int32, error) {
	switch {
	case len(messages) == 0:
		return t.Encode(text, tokenizer.Options{Special: true})
	case template == nil:
		var lines []string
		for _, m := range messages {
			lines = append(lines, m.Content)
		}
		return t.Encode(strings.Join(lines, "\n"), tokenizer.Options{Special: true})
	}
	rendered, err := template.Render(context.Background(), chat.Request{Messages: messages})
	if err != nil {
		return nil, err
	}
	return t.Encode(rendered, tokenizer.Options{ParseSpecial: true})
}
