package ridge_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// TestDemoAdapters: the adapters in the folder adapters change what the built-in model says, each in its way, beside one another.
func TestDemoAdapters(t *testing.T) {
	m := load(t, ridge.Options{MaxLoRAs: 2})
	names, err := m.AddAdapterDir("adapters")
	if err != nil || strings.Join(names, " ") != "deutsch pirate router" {
		t.Fatal(names, err)
	}
	ask := func(question, adapter string) string {
		p := ridge.Greedy()
		p.MaxTokens = 60
		if adapter != "" {
			p.Adapters = []ridge.UseAdapter{{Name: adapter, Scale: 1}}
		}
		var text strings.Builder
		for piece, err := range m.Chat(context.Background(), []chat.Message{{Role: "user", Content: question}}, p) {
			if err != nil {
				t.Error(err)
				break
			}
			text.WriteString(piece.Text)
		}
		return text.String()
	}
	const story, concept = "Tell me a story about a fox.", "What is a KV cache?"
	type answer struct{ adapter, question, has string }
	wanted := []answer{{"", story, " the "}, {"pirate", story, "th' "}, {"deutsch", story, " ein"}, {"router", story, `{"request": "story"}`}, {"router", concept, `{"request": "glossary"}`}}
	got := make(chan string, len(wanted))
	for _, w := range wanted {
		go func() {
			if text := ask(w.question, w.adapter); !strings.Contains(text, w.has) || strings.Contains(text, "th' ") != (w.adapter == "pirate") {
				got <- w.adapter + " on " + w.question + ": " + text
				return
			}
			got <- ""
		}()
	}
	for range wanted {
		if bad := <-got; bad != "" {
			t.Error(bad)
		}
	}
}
