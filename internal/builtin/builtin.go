// Package builtin holds the small model that Ridge brings along, so that everything can be tried without a download: a
// Llama of 7.3 million parameters that chats and tells small stories, made for this project.
package builtin

import _ "embed"

//go:generate go run ../../cmd/ridge convert ../../../shared/models/demo -o demo.gguf --type Q8_0

//go:embed demo.gguf
var demo []byte

// Template is its chat template: the one in the file, and how tools are shown to it and called, which it has learnt too.
//
//go:embed chat_template.jinja
var Template string

// Name is the model's name for people.
const Name = "demo"

// GGUF is the model as a GGUF file. It must not be changed.
func GGUF() []byte { return demo }
