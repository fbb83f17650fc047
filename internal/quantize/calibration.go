package quantize

import (
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/ridge-llm/ridge/internal/documents"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/tokenizer"
)

// builtin is the calibration text for when there is no other, in documents: short stories, and conversations about LLM inference.
//
//go:embed calibration.jsonl.gz
var builtin string

// builtinText unpacks it.
func builtinText() ([]byte, error) {
	r, err := gzip.NewReader(strings.NewReader(builtin))
	if err != nil {
		return nil, fmt.Errorf("quantize: the built-in text: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("quantize: the built-in text: %w", err)
	}
	return text, nil
}

// Builtin is the name of the calibration text that is built in.
const Builtin = "builtin"

// Sequences is the calibration text in a file, or Builtin: at most n sequences of length tokens, or as many tokens in documents (.jsonl), each
// a sequence of that length at most. A text shorter than one sequence is refused.
func Sequences(dir *modeldir.Dir, file string, n, length int) ([][]int32, error) {
	if n < 1 || length < 2 {
		return nil, fmt.Errorf("quantize: %d sequences of %d tokens; at least 1 of 2 is wanted", n, length)
	}
	if limit := dir.Model.Config.Context; length > limit {
		return nil, fmt.Errorf("quantize: sequences of %d tokens; the model was made for %d", length, limit)
	}
	var text []byte
	var err error
	if file == Builtin {
		text, err = builtinText()
	} else {
		text, err = regular.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("quantize: the calibration text: %w", err)
	}
	if file == Builtin || strings.HasSuffix(file, ".jsonl") {
		return fromDocuments(dir, file, text, n, length)
	}
	t, err := dir.Tokenizer()
	if err != nil {
		return nil, err
	}
	tokens, err := t.Encode(string(text), tokenizer.Options{Special: true})
	if err != nil {
		return nil, fmt.Errorf("quantize: the calibration text: %w", err)
	}
	if len(tokens) < length {
		return nil, fmt.Errorf("quantize: the calibration text %s has %d tokens, and a sequence has %d; give a longer text or a smaller --length", file, len(tokens), length)
	}
	seqs := make([][]int32, min(n, len(tokens)/length))
	for i := range seqs {
		seqs[i] = tokens[i*length : (i+1)*length]
	}
	return seqs, nil
}

// fromDocuments takes documents until there are enough tokens.
func fromDocuments(dir *modeldir.Dir, name string, text []byte, n, length int) ([][]int32, error) {
	all, err := documents.Read(dir, name, text, length)
	if err != nil {
		return nil, fmt.Errorf("quantize: the calibration text: %w", err)
	}
	tokens := 0
	for i, d := range all {
		if tokens += len(d); tokens >= n*length {
			return all[:i+1], nil
		}
	}
	if tokens < length {
		return nil, fmt.Errorf("quantize: the calibration text %s has %d tokens, and a sequence has %d; give a longer text or a smaller --length", name, tokens, length)
	}
	return all, nil
}
