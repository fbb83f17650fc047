// Tools lets a model call functions of the program until it answers: go run ./examples/tools [-model FILE] [QUESTION]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

const maxRounds = 5 // of calls, before the program gives up

func main() {
	path := flag.String("model", "", "GGUF file or Hugging Face directory; default: the built-in model, which calls well and often misreads results")
	flag.Parse()
	question := flag.Arg(0)
	if question == "" {
		question = "What is the weather in Paris?"
	}
	m, err := ridge.Load(*path, ridge.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	answer, err := solve(context.Background(), m, question)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}

// solve asks, calls what the model wants called, and asks again with the results, until an answer has no calls.
func solve(ctx context.Context, m *ridge.Model, question string) (string, error) {
	conversation := []chat.Message{{Role: "user", Content: question}}
	for range maxRounds {
		answer, err := ask(ctx, m, conversation)
		if err != nil {
			return "", err
		}
		if len(answer.ToolCalls) == 0 {
			return answer.Content, nil
		}
		conversation = append(conversation, answer)
		for _, c := range answer.ToolCalls {
			result, err := call(c.Name, c.Arguments)
			if err != nil {
				result = "error: " + err.Error() // the model may do better the next time
			}
			fmt.Printf("%s(%s) = %s\n", c.Name, c.Arguments, result)
			conversation = append(conversation, chat.Message{Role: "tool", ToolCallID: c.ID, Name: c.Name, Content: result})
		}
	}
	return "", fmt.Errorf("no answer after %d rounds of calls", maxRounds)
}

// ask is one answer of the model, with its calls read out of it.
func ask(ctx context.Context, m *ridge.Model, conversation []chat.Message) (chat.Message, error) {
	request := chat.Request{Messages: conversation, Tools: declarations(), AddGenerationPrompt: true}
	prompt, err := m.Render(ctx, request)
	if err != nil {
		return chat.Message{}, err
	}
	p := ridge.Greedy()
	p.Special = true // the marks of calls are special tokens
	// Calls, where the model makes any, are of these functions, with arguments that satisfy their schemas.
	p.Constraint, err = m.ConstrainReply(ctx, prompt, ridge.Reply{Tools: tools()})
	if err != nil {
		return chat.Message{}, err
	}
	text, err := ridge.Text(m.ChatRequest(ctx, request, p))
	if err != nil {
		return chat.Message{}, err
	}
	return read(m.Style(), prompt, text), nil
}

// read takes an answer apart: text, reasoning, calls.
func read(style chat.Style, prompt, text string) chat.Message {
	parser := chat.NewOutputParser(chat.OutputOptions{Style: style, Tools: names(), InReasoning: style.StartsInReasoning(prompt)})
	m := chat.Message{Role: "assistant"}
	for _, d := range append(parser.Feed(text), parser.Finish()...) {
		m.Content += d.Content
		m.ReasoningContent += d.Reasoning
		if d.Call == nil {
			continue
		}
		if d.Call.Index == len(m.ToolCalls) {
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: fmt.Sprint("call_", d.Call.Index), Name: d.Call.Name})
		}
		m.ToolCalls[d.Call.Index].Arguments += d.Call.Arguments
	}
	return m
}
