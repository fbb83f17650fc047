// Rag answers a question from texts: those nearest to it, by embeddings, are put into the prompt.
// go run ./examples/rag [-model FILE] [-embedder FILE] [QUESTION]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// texts is what is searched: a program of yours would read files and cut them into pieces of some hundred tokens.
var texts = []string{
	"The bakery at the harbour opens at six and is closed on Mondays.",
	"Pip the fox lives under the old oak at the end of the lane.",
	"The KV cache stores the keys and values of earlier tokens.",
	"The ferry to the island leaves every hour from the northern pier.",
	"Quantization stores weights in fewer bits, so that a step reads fewer bytes.",
}

func main() {
	path := flag.String("model", "", "model that answers: GGUF file or Hugging Face directory; default: the built-in model")
	embedder := flag.String("embedder", "", "model that makes embeddings (bge, e5, Qwen3-Embedding …); default: the built-in model, which knows words rather than meanings")
	nearest := flag.Int("k", 2, "texts that are put into the prompt")
	flag.Parse()
	question := flag.Arg(0)
	if question == "" {
		question = "What is the KV cache?"
	}
	if err := answer(context.Background(), *path, *embedder, question, *nearest); err != nil {
		log.Fatal(err)
	}
}

func answer(ctx context.Context, path, embedder, question string, nearest int) error {
	// PoolMean is for the built-in model, which was not trained for embeddings. Files of embedders say what they want.
	o := ridge.Options{}
	if embedder == "" {
		o.Pooling = ridge.PoolMean
	}
	e, err := ridge.Load(embedder, o)
	if err != nil {
		return err
	}
	defer e.Close()
	index, err := newIndex(ctx, e, texts)
	if err != nil {
		return err
	}
	found, err := index.search(ctx, e, question, nearest)
	if err != nil {
		return err
	}
	var context strings.Builder
	for _, h := range found {
		fmt.Printf("%.3f %s\n", h.similarity, h.text)
		fmt.Fprintln(&context, h.text)
	}

	m, err := ridge.Load(path, ridge.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	p := ridge.Greedy()
	p.MaxTokens = 200
	prompt := []chat.Message{{Role: "user", Content: "Answer by these texts:\n" + context.String() + "\n" + question}}
	text, err := ridge.Text(m.Chat(ctx, prompt, p))
	if err != nil {
		return err
	}
	fmt.Println(text)
	return nil
}

// index is texts and their embeddings.
type index struct {
	texts   []string
	vectors [][]float32 // of length 1
}

type hit struct {
	text       string
	similarity float32 // cosine of the angle between the embeddings
}

func newIndex(ctx context.Context, m *ridge.Model, texts []string) (*index, error) {
	x := &index{texts: texts}
	for _, text := range texts {
		e, err := m.Embed(ctx, text)
		if err != nil {
			return nil, err
		}
		x.vectors = append(x.vectors, e.Vector)
	}
	return x, nil
}

// search is the texts nearest to a question, the nearest first.
func (x *index) search(ctx context.Context, m *ridge.Model, question string, nearest int) ([]hit, error) {
	e, err := m.Embed(ctx, question)
	if err != nil {
		return nil, err
	}
	var hits []hit
	for i, v := range x.vectors {
		hits = append(hits, hit{x.texts[i], dot(e.Vector, v)})
	}
	slices.SortFunc(hits, func(a, b hit) int {
		if a.similarity > b.similarity {
			return -1
		}
		return 1
	})
	return hits[:min(max(nearest, 0), len(hits))], nil
}

func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
