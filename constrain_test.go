package ridge_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/engine/sample"
)

// TestForced: what a language leaves no choice about takes no steps, and is split into tokens as the tokenizer does.
func TestForced(t *testing.T) {
	m := load(t, ridge.Options{})
	const said = `{"answer": "The quick brown fox jumps over the lazy dog, twice."}`
	run := func(p ridge.Params, l ridge.Language) (text string, tokens []int32, steps int64, f *ridge.Finish) {
		t.Helper()
		var err error
		if p.Constraint, err = m.Constrain(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		before := m.Stats().Steps
		for piece, err := range m.Generate(context.Background(), "Say something:", p) {
			if err != nil {
				t.Fatal(err)
			}
			text += piece.Text
			if piece.Token != nil {
				tokens = append(tokens, piece.Token.Token)
			}
			f = piece.Finish
		}
		for m.Stats().Running > 0 { // the last step ends after its answers
			time.Sleep(time.Millisecond)
		}
		return text, tokens, m.Stats().Steps - before, f
	}
	ids, err := m.Encode(said, false)
	if err != nil {
		t.Fatal(err)
	}
	text, tokens, steps, f := run(ridge.Greedy(), ridge.Choices([]string{said}))
	// The first step reads the prompt; its sample may begin the text with another token than the tokenizer would.
	if text != said || steps > 1 || f.Reason != sample.ReasonStop || f.Output != len(tokens) || len(tokens) > len(ids)+1 || !slices.Equal(tokens[len(tokens)-8:], ids[len(ids)-8:]) {
		t.Errorf("%q in %d steps and %d tokens, ended by %s; its own tokens are %d", text, steps, len(tokens), f.Reason, len(ids))
	}
	p := ridge.Greedy()
	p.Sampling.Logprobs = true
	if text, tokens, steps, _ := run(p, ridge.Choices([]string{said})); text != said || int(steps) != len(tokens) {
		t.Errorf("with log-probabilities %q in %d steps for %d tokens", text, steps, len(tokens))
	}
	p = ridge.Greedy()
	p.MaxTokens = 5
	if _, tokens, _, f := run(p, ridge.Choices([]string{said})); len(tokens) != 5 || f.Reason != sample.ReasonLength {
		t.Errorf("of at most 5 tokens there are %d, ended by %s", len(tokens), f.Reason)
	}
	p = ridge.Greedy()
	p.Stop = []string{"brown"}
	if text, _, _, _ := run(p, ridge.Choices([]string{said})); text != `{"answer": "The quick ` {
		t.Errorf("before the stop string stands %q", text)
	}
	// Forced pieces between choices, behind a prompt that is long enough for several chunks.
	schema := ridge.JSONSchema([]byte(`{"type": "object", "properties": {"first": {"enum": ["yes", "no"]}, "the second property": {"type": "boolean"}, "the third property": {"type": "null"}}, "required": ["first", "the second property", "the third property"]}`))
	text, tokens, steps, _ = run(ridge.Greedy(), schema)
	if !strings.HasSuffix(text, `, "the third property": null}`) || steps > 6 || len(tokens) < 20 {
		t.Errorf("%s in %d steps and %d tokens", text, steps, len(tokens))
	}
}
