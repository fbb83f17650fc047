package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// structuredOutputFlags give the grammar that an answer must follow.
type structuredOutputFlags struct {
	format, schema, grammar, regex string
}

func (f *structuredOutputFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "format", "", "json: answer with a JSON object")
	cmd.Flags().StringVar(&f.schema, "json-schema", "", "answer with JSON that satisfies this schema: a file, or the schema itself")
	cmd.Flags().StringVar(&f.grammar, "grammar", "", "answer that matches the grammar of this GBNF file")
	cmd.Flags().StringVar(&f.regex, "regex", "", "answer with a text that matches this expression as a whole")
	cmd.MarkFlagsMutuallyExclusive("format", "json-schema", "grammar", "regex")
}

// language reads what was given; any text when nothing was.
func (f *structuredOutputFlags) language() (ridge.Language, error) {
	switch {
	case f.format == "json":
		return ridge.JSONObject(), nil
	case f.format != "":
		return ridge.Language{}, fmt.Errorf("--format %q; json is possible, and --json-schema takes a schema", f.format)
	case strings.HasPrefix(strings.TrimSpace(f.schema), "{"):
		return ridge.JSONSchema([]byte(f.schema)), nil
	case f.schema != "":
		text, err := os.ReadFile(f.schema)
		if err != nil {
			return ridge.Language{}, fmt.Errorf("--json-schema: %w", err)
		}
		return ridge.JSONSchema(text), nil
	case f.grammar != "":
		text, err := os.ReadFile(f.grammar)
		if err != nil {
			return ridge.Language{}, fmt.Errorf("--grammar: %w", err)
		}
		return ridge.GBNF(string(text)), nil
	case f.regex != "":
		return ridge.Regex(f.regex), nil
	}
	return ridge.Language{}, nil
}

// constrain holds the answers to a conversation, or with none the text that continues a prompt, to the language.
func (f *structuredOutputFlags) constrain(ctx context.Context, m *ridge.Model, p *ridge.Params, conversation []chat.Message) error {
	l, err := f.language()
	if err != nil || l.Any() {
		return err
	}
	if conversation == nil {
		p.Constraint, err = m.Constrain(ctx, l)
		return err
	}
	prompt, err := m.Render(ctx, chat.Request{Messages: conversation, AddGenerationPrompt: true})
	if err != nil {
		return err
	}
	p.Constraint, err = m.ConstrainReply(ctx, prompt, ridge.Reply{Content: l})
	return err
}
