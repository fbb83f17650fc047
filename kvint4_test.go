package ridge_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestInt4Cache: which of a query's keys are in four bits and which in sixteen depends on its place in the text alone. So an answer is the same, to the token, whether its
// prompt is computed in one step or in chunks, begins with what the prefix cache has, or its tokens follow drafts that were wrong.
func TestInt4Cache(t *testing.T) {
	prompt := strings.Repeat("Once upon a time there was a little girl who had a red ball. One day the ball was gone, and she looked for it in the garden. ", 3)
	p := ridge.Greedy()
	p.MaxTokens, p.IgnoreEnd = 90, true
	open := func(o ridge.Options) *ridge.Model {
		o.Cache, o.Threads, o.Deterministic = "int4", 2, true
		return load(t, o)
	}
	m := open(ridge.Options{})
	want, _ := generate(t, m, prompt, p)
	if again, finish := generate(t, m, prompt, p); again != want || finish.Cached < 64 {
		t.Errorf("with %d tokens from the prefix cache the answer is\n%s\nand without\n%s", finish.Cached, again, want)
	}
	for name, o := range map[string]ridge.Options{
		"in chunks":   {StepTokens: 48, Parallel: 1},
		"with drafts": {Speculation: ridge.Speculation{Method: "ngram"}},
	} {
		got, finish := generate(t, open(o), prompt, p)
		if got != want {
			t.Errorf("%s the answer is\n%s\nand should be\n%s", name, got, want)
		}
		if name == "with drafts" && finish.Drafted == finish.Accepted {
			t.Error("no draft was wrong")
		}
	}
}

// TestInt4CachePreemption: requests that give up their pages and are computed again, beside others that share their prompt's beginning, answer as each does alone.
func TestInt4CachePreemption(t *testing.T) {
	p := ridge.Greedy()
	p.MaxTokens, p.IgnoreEnd = 70, true
	begin := strings.Repeat("Once upon a time there was a little girl who had a red ball. ", 3)
	var prompts []string
	for _, end := range []string{"One day", "The ball", "Her dog was", "In the garden", "She went to", "It rained"} {
		prompts = append(prompts, begin+end)
	}
	o := ridge.Options{Cache: "int4", Threads: 1, Deterministic: true, Context: 192}
	var want []string
	alone := load(t, o)
	for _, prompt := range prompts {
		text, _ := generate(t, alone, prompt, p)
		want = append(want, text)
	}
	o.Parallel, o.StepTokens, o.KV = 4, 64, ridge.Budget{Bytes: 1500 << 10}
	m := load(t, o)
	var all sync.WaitGroup
	for i, prompt := range prompts {
		all.Go(func() {
			if got, _ := generate(t, m, prompt, p); got != want[i] {
				t.Errorf("%q goes on with\n%s\nand alone with\n%s", prompt, got, want[i])
			}
		})
	}
	all.Wait()
	if s := m.Stats(); s.Preemptions == 0 {
		t.Errorf("no request had to give up its pages: %+v", s)
	}
}
