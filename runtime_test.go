package ridge_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestRuntime: models that share the threads answer at the same time what each answers alone.
func TestRuntime(t *testing.T) {
	const prompt = "Once upon a time"
	tokens := 24
	if testing.Short() { // the race detector makes the reference backend slow
		tokens = 6
	}
	options := []ridge.Options{{Deterministic: true}, {Deterministic: true, Context: 256}, {Backend: "ref", Context: 64}}
	limited := func() ridge.Params {
		p := ridge.Greedy()
		p.MaxTokens = tokens
		return p
	}
	answer := func(m *ridge.Model) (string, error) { return ridge.Text(m.Generate(t.Context(), prompt, limited())) }
	var want []string
	for _, o := range options {
		m, err := ridge.Load("", o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := answer(m)
		if err != nil || text == "" {
			t.Fatal(text, err)
		}
		want = append(want, text)
		m.Close()
	}
	r, err := ridge.NewRuntime(ridge.RuntimeOptions{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	var models []*ridge.Model
	for _, o := range options {
		m, err := r.Load("", o)
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "not closed") {
		t.Errorf("closing under its models: %v", err)
	}
	var all sync.WaitGroup
	for i, m := range models {
		for range 3 {
			all.Go(func() {
				if got, err := answer(m); err != nil || got != want[i] {
					t.Errorf("model %d: %q, %v; alone it says %q", i, got, err, want[i])
				}
			})
		}
	}
	all.Wait()
	models[0].Close() // one that goes takes nothing from the others
	if got, err := answer(models[1]); err != nil || got != want[1] {
		t.Errorf("after another was closed: %q, %v", got, err)
	}
	for _, m := range models {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Load("", ridge.Options{}); err == nil {
		t.Error("a closed Runtime loaded a model")
	}
}
