// Agent has a model look through the files of a folder, step by step, until it answers a question. It needs no tools in the chat template: each step is
// JSON by a schema that has what is possible just then, so that no step can be malformed, name a file that is not there, or go round in circles.
// go run ./examples/agent [-model FILE] [-dir FOLDER] [QUESTION]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

const (
	maxSteps = 4    // files that are read, and the answer
	maxFile  = 1500 // bytes of a file that the model is shown
)

func main() {
	path := flag.String("model", "", "GGUF file or Hugging Face directory; default: the built-in model, which shows the steps but reads little into them")
	dir := flag.String("dir", ".", "folder whose files may be read; nothing else may be")
	flag.Parse()
	question := flag.Arg(0)
	if question == "" {
		question = "What is this folder for?"
	}
	if err := run(context.Background(), *path, *dir, question); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path, dir, question string) error {
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	unread, err := regularFiles(root)
	if err != nil {
		return err
	}
	m, err := ridge.Load(path, ridge.Options{})
	if err != nil {
		return err
	}
	defer m.Close()

	a := agent{model: m, root: root, unread: unread}
	a.conversation = []chat.Message{{Role: "user", Content: "Answer a question about files. In each step give a thought, and read a file or answer.\nQuestion: " + question}}
	for steps := maxSteps; ; steps-- {
		s, err := a.step(ctx, steps < maxSteps, steps > 1)
		if err != nil {
			return err
		}
		fmt.Printf("thought: %s\n", s.Thought)
		if s.Read == "" {
			fmt.Printf("answer: %s\n", s.Answer)
			return nil
		}
		fmt.Printf("read: %s\n", s.Read)
		if err := a.read(s.Read); err != nil {
			return err
		}
	}
}

// step is what the model wants done: a file read, or the question answered.
type step struct {
	Thought string `json:"thought"`
	Read    string `json:"read"`
	Answer  string `json:"answer"`
}

type agent struct {
	model        *ridge.Model
	root         *os.Root
	unread       []string // files
	conversation []chat.Message
}

// step asks for the next step. The first is to read a file: what is answered before would be a guess. The last is to answer.
func (a *agent) step(ctx context.Context, mayAnswer, mayRead bool) (s step, err error) {
	p := ridge.Greedy()
	if p.Constraint, err = a.model.Constrain(ctx, ridge.JSONSchema(a.schema(mayAnswer, mayRead))); err != nil {
		return s, err
	}
	text, err := ridge.Text(a.model.Chat(ctx, a.conversation, p))
	if err != nil {
		return s, err
	}
	a.conversation = append(a.conversation, chat.Message{Role: "assistant", Content: text})
	return s, json.Unmarshal([]byte(text), &s)
}

// schema is that of a step. Files that were read are not read again.
func (a *agent) schema(mayAnswer, mayRead bool) []byte {
	object := func(name string, value map[string]any) map[string]any {
		return map[string]any{
			"type":                 "object",
			"properties":           map[string]any{"thought": map[string]any{"type": "string", "maxLength": 80}, name: value},
			"required":             []string{"thought", name},
			"additionalProperties": false,
		}
	}
	var steps []any
	if mayRead && len(a.unread) > 0 {
		steps = append(steps, object("read", map[string]any{"enum": a.unread}))
	}
	if mayAnswer || len(steps) == 0 {
		steps = append(steps, object("answer", map[string]any{"type": "string", "maxLength": 200}))
	}
	schema, err := json.Marshal(map[string]any{"anyOf": steps})
	if err != nil {
		panic(err) // it is made of strings, numbers and lists of them
	}
	return schema
}

// read shows the model the beginning of a file.
func (a *agent) read(name string) error {
	f, err := a.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	a.unread = slices.DeleteFunc(a.unread, func(n string) bool { return n == name })
	a.conversation = append(a.conversation, chat.Message{Role: "user", Content: name + ":\n" + string(text)})
	return nil
}

func regularFiles(root *os.Root) (names []string, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
