// Generate continues a text: go run ./examples/generate [-model FILE] [TEXT]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/ridge-llm/ridge"
)

func main() {
	path := flag.String("model", "", "GGUF file or Hugging Face directory; default: the built-in model")
	longest := flag.Int("n", 40, "longest continuation, in tokens")
	flag.Parse()
	text := flag.Arg(0)
	if text == "" {
		text = "Once upon a time"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // Ctrl-C ends the answer
	defer stop()
	if err := generate(ctx, *path, text, *longest); err != nil {
		log.Fatal(err)
	}
}

func generate(ctx context.Context, path, text string, longest int) error {
	m, err := ridge.Load(path, ridge.Options{})
	if err != nil {
		return err
	}
	defer m.Close()

	p := m.Defaults() // what the model's authors recommend; ridge.Greedy() is the likeliest token every time
	p.MaxTokens = longest
	p.Stop = []string{"\n\n"}
	fmt.Print(text)
	for piece, err := range m.Generate(ctx, text, p) {
		if err != nil {
			return err
		}
		fmt.Print(piece.Text)
	}
	fmt.Println()
	return nil
}
