// Package convert writes models as GGUF files that Ridge and llama.cpp read alike.
//
// A source (a Hugging Face directory, a GGUF file in other number formats, or a shape with random weights) becomes a
// file: metadata and a list of tensors, each of which can be read by rows. Writing goes through that list once:
// spans are encoded on all cores and written in order, so that a model of any size passes through a few megabytes.
//
//	from_hf.go    a directory: tensors as the model's graph finds them, in GGUF's names and conventions
//	from_gguf.go  a GGUF file: its tensors and its metadata as they are
//	dummy.go      a shape: random blocks
//	type.go       which number format a tensor gets, by llama-quantize's rules
//	write.go      the one loop that writes
package convert
