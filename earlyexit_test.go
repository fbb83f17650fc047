package ridge_test

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestEarlyExit: where no token is sure enough to leave, the answer is the whole model's; where every token leaves, it is another, and all of them are counted at the first
// exit. What means nothing is refused.
func TestEarlyExit(t *testing.T) {
	const prompt = "Once upon a time there was a fox named Pip."
	ask := func(e ridge.EarlyExit) (string, []int, []int64) {
		m, err := ridge.Load("", ridge.Options{EarlyExit: e, Deterministic: true, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		p := m.Defaults()
		p.Sampling.Temperature, p.MaxTokens, p.IgnoreEnd = 0, 24, true
		text, err := ridge.Text(m.Generate(t.Context(), prompt, p))
		if err != nil {
			t.Fatal(err)
		}
		layers, tokens := m.EarlyExits()
		return text, layers, tokens
	}
	want, none, _ := ask(ridge.EarlyExit{})
	if none != nil {
		t.Errorf("exits after %v without early exit", none)
	}
	got, layers, tokens := ask(ridge.EarlyExit{Layers: []int{3, 5}, Threshold: 1})
	if got != want || len(layers) != 3 || tokens[0]+tokens[1] != 0 || tokens[2] != 23 {
		t.Errorf("%q, tokens left after %v: %v; without exits %q", got, layers, tokens, want)
	}
	got, _, tokens = ask(ridge.EarlyExit{Layers: []int{3, 5}})
	if got == want || tokens[0] != 23 || tokens[1]+tokens[2] != 0 {
		t.Errorf("%q, tokens left: %v; without exits %q", got, tokens, want)
	}
	for want, o := range map[string]ridge.Options{
		"the threshold is 2; 0 to 1":        {EarlyExit: ridge.EarlyExit{Layers: []int{3}, Threshold: 2}},
		"and no layers":                     {EarlyExit: ridge.EarlyExit{Threshold: 0.5}},
		"an exit after layer 99 of a model": {EarlyExit: ridge.EarlyExit{Layers: []int{99}, Threshold: 0.5}},
		"are both set, and drafts":          {EarlyExit: ridge.EarlyExit{Layers: []int{3}}, Speculation: ridge.Speculation{Method: "ngram"}},
		"are both set, and adapters":        {EarlyExit: ridge.EarlyExit{Layers: []int{3}}, MaxLoRAs: 1},
		"exit_layer is 99, and the model":   {Speculation: ridge.Speculation{Method: "layerskip", ExitLayer: 99}},
	} {
		if m, err := ridge.Load("", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; it should say %q", o, err, want)
			if err == nil {
				m.Close()
			}
		}
	}
}
