package ridge_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
)

// load loads the built-in model once for a test.
func load(t testing.TB, o ridge.Options) *ridge.Model {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 1 // on a busy machine threads of small models mostly wait for each other
	}
	m, err := ridge.Load("", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func generate(t testing.TB, m *ridge.Model, prompt string, p ridge.Params) (string, *ridge.Finish) {
	t.Helper()
	var text strings.Builder
	var finish *ridge.Finish
	for piece, err := range m.Generate(context.Background(), prompt, p) {
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(piece.Text)
		finish = piece.Finish
	}
	return text.String(), finish
}

func TestGenerate(t *testing.T) {
	m := load(t, ridge.Options{})
	p := ridge.Greedy()
	p.MaxTokens = 12
	text, finish := generate(t, m, "Once upon a time", p)
	if !strings.HasPrefix(text, " there was a small") {
		t.Errorf("the built-in model goes on with %q", text)
	}
	if finish.Reason != "length" || finish.Output != 12 || finish.Prompt != 4 {
		t.Errorf("finish %+v", *finish)
	}
}

// TestSeed: the same seed gives the same text, alone or in company, and another seed another.
func TestSeed(t *testing.T) {
	m := load(t, ridge.Options{})
	p := m.Defaults()
	p.MaxTokens, p.Sampling.Temperature, p.Sampling.Seed = 40, 1.2, 7
	want, _ := generate(t, m, "The cat", p)
	texts := make([]string, 6)
	var wait sync.WaitGroup
	for i := range texts {
		wait.Go(func() { texts[i], _ = generate(t, m, "The cat", p) })
	}
	wait.Wait()
	for _, text := range texts {
		if text != want {
			t.Errorf("seed 7 gave %q and %q", want, text)
		}
	}
	p.Sampling.Seed = 8
	if other, _ := generate(t, m, "The cat", p); other == want {
		t.Errorf("seeds 7 and 8 both gave %q", want)
	}
}

func TestStopString(t *testing.T) {
	m := load(t, ridge.Options{})
	p := ridge.Greedy()
	p.MaxTokens = 60
	all, _ := generate(t, m, "Once upon a time", p)
	p.Stop = []string{"dragon"}
	text, finish := generate(t, m, "Once upon a time", p)
	if cut, _, found := strings.Cut(all, "dragon"); !found || text != cut || finish.Reason != "stop" {
		t.Errorf("%q ended by %s; it should end before dragon in %q", text, finish.Reason, all)
	}
}

// TestLeaveEarly: breaking out of the loop, or cancelling, ends the request and leaves the model usable.
func TestLeaveEarly(t *testing.T) {
	m := load(t, ridge.Options{Parallel: 1})
	p := ridge.Greedy()
	p.IgnoreEnd = true
	for range m.Generate(context.Background(), "Once", p) {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	for _, err := range m.Generate(ctx, "Once", p) {
		if n++; n == 3 {
			cancel()
		}
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled with %v", err)
			}
			break
		}
	}
	p.MaxTokens = 3
	if text, _ := generate(t, m, "Once", p); text == "" {
		t.Error("nothing came after the cancelled request")
	}
}

func TestRefusals(t *testing.T) {
	m := load(t, ridge.Options{Context: 64})
	for want, set := range map[string]func(*ridge.Params) string{
		"the context is 64":              func(*ridge.Params) string { return strings.Repeat("word ", 100) },
		"top_p":                          func(p *ridge.Params) string { p.Sampling.TopP = -1; return "x" },
		"MaxTokens (--max-tokens) is -1": func(p *ridge.Params) string { p.MaxTokens = -1; return "x" },
		"stop string 0":                  func(p *ridge.Params) string { p.Stop = []string{""}; return "x" },
	} {
		p := m.Defaults()
		prompt := set(&p)
		_, err := ridge.Text(m.Generate(context.Background(), prompt, p))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; it should say %q", err, want)
		}
	}
	if _, err := ridge.Load("no/such/file.gguf", ridge.Options{}); err == nil || !strings.Contains(err.Error(), "no/such/file.gguf") {
		t.Errorf("error %v; it should name the file", err)
	}
	if _, err := ridge.Load("", ridge.Options{Backend: "tpu"}); err == nil || !strings.Contains(err.Error(), "tpu") {
		t.Errorf("error %v; it should name the backend", err)
	}
}

func TestClosedModel(t *testing.T) {
	m := load(t, ridge.Options{})
	p := ridge.Greedy()
	p.IgnoreEnd = true
	runs := m.Device()
	started, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		for _, err := range m.Generate(context.Background(), "Once", p) {
			once.Do(func() { close(started) })
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	<-started
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ridge.ErrClosed) {
		t.Errorf("the unfinished request ended with %v", err)
	}
	if d := m.Device(); d != runs || d == "" {
		t.Errorf("it ran on %q, and on %q when it was asked after its end", runs, d)
	}
}

func TestRoundTrip(t *testing.T) {
	m := load(t, ridge.Options{})
	ids, err := m.Encode("Pip the fox — naïve?", false)
	if err != nil {
		t.Fatal(err)
	}
	if back := m.Decode(ids); back != "Pip the fox — naïve?" {
		t.Errorf("%v decodes to %q", ids, back)
	}
}
