package ridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestSpeculationConfig: vLLM's configurations are read, and those that mean nothing are refused with what is wrong.
func TestSpeculationConfig(t *testing.T) {
	for text, want := range map[string]ridge.Speculation{
		`{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}`: {Method: "ngram", Tokens: 3, LookupMin: 1, LookupMax: 4},
		`{"model": "[ngram]", "num_speculative_tokens": 3}`:                                                {Method: "ngram", Tokens: 3},
		`{"model": "small.gguf"}`: {Method: "draft_model", Model: "small.gguf"},
	} {
		var got ridge.Speculation
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %+v (%v), want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{}`:                   "names no method",
		`{"method": "oracle"}`: `method "oracle"; ngram, suffix, draft_model and medusa are possible`,
		`{"method": "ngram", "num_speculative_tokens": 0}`:  "num_speculative_tokens is 0",
		`{"method": "ngram", "num_speculative_tokens": 99}`: "drafts of 99 tokens",
		`{"method": "ngram", "model": "a.gguf"}`:            "no other method has one",
		`{"method": "draft_model"}`:                         "draft_model and medusa need one",
		`{"model": "a.gguf", "prompt_lookup_max": 3}`:       "settings of the method ngram",
		`{"method": "ngram", "tokens": 3}`:                  `unknown field "tokens"`,
	} {
		if err := json.Unmarshal([]byte(text), new(ridge.Speculation)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; it should say %q", text, err, want)
		}
	}
}

// answerOf is a model's greedy answer to a prompt.
func answerOf(t *testing.T, path string, o ridge.Options, prompt string) (string, ridge.Stats) {
	t.Helper()
	o.Deterministic, o.Threads = true, 2
	m, err := ridge.Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p := m.Defaults()
	p.Sampling.Temperature, p.MaxTokens = 0, 80
	var text strings.Builder
	for piece, err := range m.Generate(context.Background(), prompt, p) {
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(piece.Text)
	}
	return text.String(), m.Stats()
}

// TestSpeculationAnswers: with each method the answer is the one without.
func TestSpeculationAnswers(t *testing.T) {
	const prompt = "Once upon a time there was a fox named Pip. Once upon a time there was"
	want, stats := answerOf(t, "", ridge.Options{}, prompt)
	if stats.DraftMethod != "" || stats.Drafts != 0 {
		t.Errorf("without speculation: %+v", stats)
	}
	for _, s := range []ridge.Speculation{{Method: "ngram", LookupMin: 1, Always: true}, {Method: "ngram", Tokens: 3}, {Method: "suffix", Tokens: 7, Always: true}} {
		got, stats := answerOf(t, "", ridge.Options{Speculation: s}, prompt)
		if got != want || s.Always && stats.AcceptedTokens == 0 || stats.DraftMethod != s.Method {
			t.Errorf("%+v: %q with %d of %d drafted tokens accepted; without drafts %q", s, got, stats.AcceptedTokens, stats.DraftTokens, want)
		}
	}
}

// TestDraftModel: the demo model with its draft model answers as it does alone; a model of another vocabulary is refused.
func TestDraftModel(t *testing.T) {
	const demo, small, other = "../shared/models/demo", "../shared/models/demo-draft", "../shared/models/stories260K/hf"
	if _, err := os.Stat(small); errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared, which has a draft model, is not here")
	}
	const prompt = "Once upon a time there was a fox named Pip."
	want, _ := answerOf(t, demo, ridge.Options{}, prompt)
	got, stats := answerOf(t, demo, ridge.Options{Speculation: ridge.Speculation{Method: "draft_model", Model: small, Always: true}}, prompt)
	if got != want || 3*stats.AcceptedTokens < stats.DraftTokens {
		t.Errorf("%q with %d of %d drafted tokens accepted; without drafts %q", got, stats.AcceptedTokens, stats.DraftTokens, want)
	}
	_, err := ridge.Load(demo, ridge.Options{Speculation: ridge.Speculation{Method: "draft_model", Model: other}})
	if err == nil || !strings.Contains(err.Error(), "the draft model knows 512 tokens and the model 4096") {
		t.Errorf("%v", err)
	}
}

// TestMedusa: the demo model with its Medusa heads, whose drafts are trees, answers as it does alone; heads of another size are refused.
func TestMedusa(t *testing.T) {
	const demo, heads, other = "../shared/models/demo", "../shared/models/demo-medusa", "../shared/models/stories260K/hf"
	if _, err := os.Stat(heads); errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared, which has Medusa heads, is not here")
	}
	const prompt = "Once upon a time there was a fox named Pip."
	want, _ := answerOf(t, demo, ridge.Options{}, prompt)
	for _, tokens := range []int{4, 16} {
		got, stats := answerOf(t, demo, ridge.Options{Speculation: ridge.Speculation{Method: "medusa", Model: heads, Tokens: tokens, Always: true}}, prompt)
		t.Logf("%d steps, %d of %d drafted tokens accepted", stats.Steps, stats.AcceptedTokens, stats.DraftTokens)
		if got != want || 2*stats.AcceptedTokens < stats.Steps {
			t.Errorf("%q in %d steps with %d of %d drafted tokens accepted; without drafts %q", got, stats.Steps, stats.AcceptedTokens, stats.DraftTokens, want)
		}
	}
	_, err := ridge.Load(other, ridge.Options{Speculation: ridge.Speculation{Method: "medusa", Model: heads}})
	if err == nil || !strings.Contains(err.Error(), "tensor 0.lm.weight is 4096 × 256, and the model's hidden size and vocabulary ask for 512 × 64") {
		t.Errorf("%v", err)
	}
}
