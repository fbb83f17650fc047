// Chat answers questions from standard input, a line each, and keeps the conversation: go run ./examples/chat [-model NAME]
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

func main() {
	name := flag.String("model", "", "name of a model, which is downloaded (llama3.2:1b, ORG/REPO:QUANT); default: the built-in model")
	flag.Parse()
	if err := talk(context.Background(), *name); err != nil {
		log.Fatal(err)
	}
}

func talk(ctx context.Context, name string) error {
	path := "" // the built-in model
	if name != "" {
		var err error
		if path, err = ridge.Pull(ctx, name, ridge.PullOptions{}); err != nil {
			return err
		}
	}
	m, err := ridge.Load(path, ridge.Options{})
	if err != nil {
		return err
	}
	defer m.Close()

	var conversation []chat.Message
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		conversation = append(conversation, chat.Message{Role: "user", Content: lines.Text()})
		answer, err := stream(ctx, m, conversation)
		if errors.Is(err, ridge.ErrContextLength) {
			fmt.Println("(the conversation was too long for the model, and begins anew)")
			conversation = nil
			continue
		}
		if err != nil {
			return err
		}
		conversation = append(conversation, chat.Message{Role: "assistant", Content: answer})
	}
	return lines.Err()
}

// stream prints an answer as it comes, and returns it. Of the prompt only the new message is computed: the rest is in the cache.
func stream(ctx context.Context, m *ridge.Model, conversation []chat.Message) (answer string, err error) {
	for piece, err := range m.Chat(ctx, conversation, m.Defaults()) {
		if err != nil {
			return "", err
		}
		fmt.Print(piece.Text)
		answer += piece.Text
	}
	fmt.Println()
	return answer, nil
}
