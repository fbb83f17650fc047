package main

import (
	"encoding/json"
	"fmt"

	"github.com/ridge-llm/ridge"
)

// function is one that the model may call.
type function struct {
	name, description string
	parameters        string // JSON schema
	call              func(arguments []byte) (string, error)
}

var functions = []function{
	{"get_weather", "Weather of a city", `{"type": "object", "properties": {"city": {"type": "string", "maxLength": 40}}, "required": ["city"]}`, weather},
	{"add", "Add two numbers", `{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}`, add},
}

// weather stands for a request to some service.
func weather(arguments []byte) (string, error) {
	var a struct{ City string }
	if err := json.Unmarshal(arguments, &a); err != nil {
		return "", err
	}
	degrees, known := map[string]int{"Paris": 18, "Berlin": 14, "Oslo": 7}[a.City]
	if !known {
		return "", fmt.Errorf("there is no weather station in %q", a.City)
	}
	return fmt.Sprintf("%d degrees", degrees), nil
}

func add(arguments []byte) (string, error) {
	var a struct{ A, B int }
	if err := json.Unmarshal(arguments, &a); err != nil {
		return "", err
	}
	return fmt.Sprint(a.A + a.B), nil
}

func call(name, arguments string) (string, error) {
	for _, f := range functions {
		if f.name == name {
			return f.call([]byte(arguments))
		}
	}
	return "", fmt.Errorf("there is no function %q", name)
}

// declarations is the functions as the chat template shows them to the model.
func declarations() (list []json.RawMessage) {
	for _, f := range functions {
		list = append(list, json.RawMessage(fmt.Sprintf(`{"type": "function", "function": {"name": %q, "description": %q, "parameters": %s}}`, f.name, f.description, f.parameters)))
	}
	return list
}

// tools is the functions as far as the form of calls is concerned.
func tools() (list []ridge.Tool) {
	for _, f := range functions {
		list = append(list, ridge.Tool{Name: f.name, Parameters: json.RawMessage(f.parameters), Strict: true})
	}
	return list
}

func names() (list []string) {
	for _, f := range functions {
		list = append(list, f.name)
	}
	return list
}
