package ridge_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestGenerateEmbeddings: a prompt of embeddings is answered, the same each time; one of no whole number of tokens is refused.
func TestGenerateEmbeddings(t *testing.T) {
	m, err := ridge.Load("", ridge.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const width = 256 // the built-in model's hidden size
	rows := make([]float32, 5*width)
	for i := range rows {
		rows[i] = float32(i*7919%1000)/500 - 1
	}
	p := m.Defaults()
	p.Sampling.Temperature, p.MaxTokens, p.IgnoreEnd = 0, 8, true
	first, err := ridge.Text(m.GenerateEmbeddings(context.Background(), rows, p))
	if err != nil {
		t.Fatal(err)
	}
	again, err := ridge.Text(m.GenerateEmbeddings(context.Background(), rows, p))
	if err != nil || first == "" || again != first {
		t.Errorf("%q and then %q, %v", first, again, err)
	}
	if _, err := ridge.Text(m.GenerateEmbeddings(context.Background(), rows[1:], p)); !errors.Is(err, ridge.ErrInvalidRequest) {
		t.Errorf("half a token: %v", err)
	}
}
