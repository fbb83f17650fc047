// Structured has a model fill in a Go struct: its answer satisfies a JSON schema, whatever the model. go run ./examples/structured [-model FILE] [TEXT]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// schema is that of person. Bounds on lengths keep a small model from writing for ever.
const schema = `{
	"type": "object",
	"properties": {
		"name": {"type": "string", "minLength": 1, "maxLength": 40},
		"born": {"type": "integer", "minimum": 1000, "maximum": 2100},
		"field": {"enum": ["mathematics", "physics", "computing", "other"]}
	},
	"required": ["name", "born", "field"],
	"additionalProperties": false
}`

type person struct {
	Name  string `json:"name"`
	Born  int    `json:"born"`
	Field string `json:"field"`
}

func main() {
	path := flag.String("model", "", "GGUF file or Hugging Face directory; default: the built-in model, which does not understand such texts")
	flag.Parse()
	text := flag.Arg(0)
	if text == "" {
		text = "Ada Lovelace was born in 1815 and wrote the first program."
	}
	p, err := read(context.Background(), *path, text)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q, born in %d, works in %s\n", p.Name, p.Born, p.Field)
}

func read(ctx context.Context, path, text string) (p person, err error) {
	m, err := ridge.Load(path, ridge.Options{})
	if err != nil {
		return p, err
	}
	defer m.Close()

	params := ridge.Greedy()
	params.Constraint, err = m.Constrain(ctx, ridge.JSONSchema([]byte(schema)))
	if err != nil {
		return p, err // a *ridge.LanguageError: the schema says what cannot be enforced
	}
	question := []chat.Message{{Role: "user", Content: "Who is this about? Answer in JSON, with the name, the year of birth and the field of work.\n" + text}}
	answer, err := ridge.Text(m.Chat(ctx, question, params))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(answer), &p)
}
