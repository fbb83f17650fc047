package engine

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/quant"
)

// TestPromptEmbeddings: prompts given as the rows that the model's table has for their tokens are answered as the tokens are, beside others, in
// chunks and preempted; embeddings of another size or with numbers that are not finite are refused.
func TestPromptEmbeddings(t *testing.T) {
	dir, err := modeldir.Open("../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	table, err := dir.Source.Tensor("model.embed_tokens.weight")
	if err != nil {
		t.Fatal(err)
	}
	const requests = 5
	lim := backend.Limits{Tokens: 24, Seqs: 4, Logits: 4, PageSize: 4, SeqPages: 16, Pages: 24}
	run := func(embedded func(i int) bool) (got [requests]collected) {
		e := onRef(t, true, lim, Options{})
		for i := range got {
			prompt := make([]int32, 9+8*i)
			for j := range prompt {
				prompt[j] = int32(3 + (j*j+j)%90)
			}
			r := got[i].into(greedy(prompt, 12))
			if embedded(i) {
				for _, id := range prompt {
					row := make([]float32, table.Cols)
					quant.Decode(table.Format, row, table.Row(int(id)))
					r.Embeddings = append(r.Embeddings, row...)
				}
				clear(r.Prompt)
			}
			if err := e.Submit(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
		for e.admit(); len(e.queue.byID) > 0; {
			mustStep(t, e)
		}
		return got
	}
	want := run(func(int) bool { return false })
	got := run(func(i int) bool { return i%2 == 0 })
	for i := range want {
		if !slices.Equal(got[i].tokens, want[i].tokens) {
			t.Errorf("request %d got %v; by ids %v", i, got[i].tokens, want[i].tokens)
		}
	}
	e := onRef(t, true, lim, Options{})
	for text, embeddings := range map[string][]float32{
		"1 tokens and 3 numbers of embeddings":    make([]float32, 3),
		"number 2 of the embedding of token 0 is": append([]float32{0, 0, float32(math.Inf(1))}, make([]float32, table.Cols-3)...),
	} {
		r := greedy([]int32{0}, 3)
		r.Embeddings = embeddings
		if err := e.Submit(context.Background(), r); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; it should say %q", err, text)
		}
	}
}
