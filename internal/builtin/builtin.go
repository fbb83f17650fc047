// Package builtin holds the small models that Ridge brings along, so that everything can be tried without a download: a
// Llama of 7.3 million parameters that chats and tells small stories, made for this project, and what became of it after some minutes of training
// as a masked diffusion model on the same texts.
package builtin

import _ "embed"

//go:generate go run ../../cmd/ridge convert ../../../shared/models/demo -o demo.gguf --type Q8_0

//go:embed demo.gguf
var demo []byte

//go:embed diffusion.gguf
var diffusion []byte

// Template is the demo model's chat template: the one in the file, and how tools are shown to it and called, which it has learnt too.
//
//go:embed chat_template.jinja
var Template string

// Name is the demo model's name for people.
const Name = "demo"

// Diffusion is the name by which the masked diffusion model is opened.
const Diffusion = "builtin:diffusion"

// GGUF is the demo model as a GGUF file. It must not be changed.
func GGUF() []byte { return demo }

// DiffusionGGUF is the masked diffusion model as a GGUF file. It must not be changed.
func DiffusionGGUF() []byte { return diffusion }
