package ridge_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

func ExampleModel_Generate() {
	m, err := ridge.Load("", ridge.Options{}) // the built-in model
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	p := ridge.Greedy()
	p.MaxTokens = 6
	for piece, err := range m.Generate(context.Background(), "Once upon a time", p) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
	// Output: there was a small green dragon
}

func ExampleModel_Chat() {
	m, err := ridge.Load("", ridge.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	question := []chat.Message{{Role: "user", Content: "Who are you?"}}
	text, err := ridge.Text(m.Chat(context.Background(), question, ridge.Greedy()))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
	// Output: I am Ridge's built-in demo model. I know stories and terms of LLM inference, and I am often wrong about anything else.
}

func ExampleModel_Encode() {
	m, err := ridge.Load("", ridge.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	ids, err := m.Encode("Once upon a time", false)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids, m.Decode(ids))
	// Output: [1354 1447 266 530] Once upon a time
}
