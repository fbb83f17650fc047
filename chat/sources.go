package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sources are a model's chat templates and the tokens they print, wherever they were found. For GGUF they are the
// metadata tokenizer.chat_template and tokenizer.chat_template.tool_use, and the tokens of the ids in
// tokenizer.ggml.bos_token_id and the like.
type Sources struct {
	Name    string            // of the file, for error sentences
	Default string            // the template, or "" when the model has none
	ToolUse string            // the template for conversations with tools, when that is another one
	Tokens  map[string]string // bos_token, eos_token, …
}

// maxFile bounds the files read here, in bytes: tokenizer_config.json may list thousands of added tokens.
const maxFile = 64 << 20

// ReadDir finds the sources of a model in a Hugging Face directory: tokenizer_config.json, in which the template may
// stand, or beside it chat_template.jinja or chat_template.json, and additional_chat_templates/tool_use.jinja. What is
// not there is left empty.
func ReadDir(dir string) (Sources, error) {
	s := Sources{Name: filepath.Join(dir, "chat_template.jinja"), Tokens: map[string]string{}}
	path := filepath.Join(dir, "tokenizer_config.json")
	config, err := readFile(path)
	if err != nil {
		return s, err
	}
	if config != nil {
		if s, err = ParseTokenizerConfig(path, config); err != nil {
			return s, err
		}
	}
	if s.Default == "" {
		path := filepath.Join(dir, "chat_template.json")
		data, err := readFile(path)
		if err != nil {
			return s, err
		}
		if data != nil {
			found, err := ParseTokenizerConfig(path, data)
			if err != nil {
				return s, err
			}
			s.Name, s.Default, s.ToolUse = path, found.Default, found.ToolUse
		}
	}
	for name, into := range map[string]*string{"chat_template.jinja": &s.Default, "additional_chat_templates/tool_use.jinja": &s.ToolUse} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		data, err := readFile(path)
		if err != nil {
			return s, err
		}
		if data != nil {
			*into = string(data)
			if into == &s.Default {
				s.Name = path
			}
		}
	}
	return s, nil
}

// readFile reads a file that may be missing: then it gives nil.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("chat: %s has %d bytes; %d is the limit", path, info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return data, nil
}

// ParseTokenizerConfig takes the templates and the special tokens out of a tokenizer_config.json. The template is a
// text, or a list of named texts, of which "default" and "tool_use" are used. A token is a text or an object with its
// text as content.
func ParseTokenizerConfig(path string, data []byte) (Sources, error) {
	s := Sources{Name: path, Tokens: map[string]string{}}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return s, fmt.Errorf("chat: %s: %w", path, err)
	}
	for name, value := range fields {
		if !strings.HasSuffix(name, "_token") {
			continue
		}
		var token struct{ Content string }
		if json.Unmarshal(value, &token.Content) == nil || json.Unmarshal(value, &token) == nil {
			if token.Content != "" {
				s.Tokens[name] = token.Content
			}
		}
	}
	value := fields["chat_template"]
	if value == nil || string(value) == "null" {
		return s, nil
	}
	if json.Unmarshal(value, &s.Default) == nil {
		return s, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(value, &named); err != nil {
		return s, fmt.Errorf("chat: %s: chat_template must be a text or a list of {name, template}", path)
	}
	for _, t := range named {
		switch t.Name {
		case "default":
			s.Default = t.Template
		case "tool_use":
			s.ToolUse = t.Template
		}
	}
	return s, nil
}
