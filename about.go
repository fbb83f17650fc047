package ridge

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/weights"
)

// About is what a model's files say of it.
type About struct {
	Architecture string         // in GGUF's words: "llama"
	Format       string         // of the files: "gguf" or "safetensors"
	Type         string         // the format that most of its numbers are in: "Q4_0"
	Parameters   int64          // numbers in all tensors
	Bytes        int64          // that they take in the files
	Config       map[string]any // the configuration under GGUF's keys, without the architecture before them: "block_count"
	Template     string         // of chats; "" when there is none
	Tools        bool           `json:"-"` // the template shows the model the tools of a request
	Encoder      bool           `json:"-"` // it makes vectors of texts and writes none
	Trained      int            `json:"-"` // tokens of context that it was made for
	Digest       string         // SHA-256 in hex of all of that and the tensors' names and shapes, though not of the weights
}

// Describe reads what the files of a model say of it, without loading it. The path is Load's.
func Describe(path string) (a About, err error) {
	b, err := open(path)
	if err != nil {
		return About{}, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	t, err := b.Tokenizer()
	if err != nil {
		return About{}, err
	}
	template, err := b.Template(t, "")
	if err != nil {
		return About{}, err
	}
	return about(b, template)
}

// About reads what the model's files say of it.
func (m *Model) About() (About, error) { return about(m.dir, m.template) }

// SpecialTokens are the texts of the token that begins a text and of the one that ends it; "" where the model has none.
func (m *Model) SpecialTokens() (bos, eos string) {
	if id, ok := m.tokenizer.BOS(); ok {
		bos = string(m.tokenizer.TokenBytes(id))
	}
	if id, ok := m.tokenizer.EOS(); ok {
		eos = string(m.tokenizer.TokenBytes(id))
	}
	return bos, eos
}

// about is what a model's files say of it, and its template, which may be nil.
func about(b *modeldir.Dir, template *chat.Template) (About, error) {
	a := About{Architecture: b.Model.Arch.Name, Format: "safetensors", Config: b.Model.Meta, Encoder: b.Model.Config.Encoder, Trained: b.Model.Config.Context}
	if b.Source.Kind == weights.GGUF {
		a.Format = "gguf"
	}
	if template != nil {
		a.Template, a.Tools = template.Source(), template.ShowsTools()
	}
	types := map[string]int64{}
	sum := sha256.New()
	for _, name := range b.Source.Names() {
		info, data, err := b.Source.Raw(name)
		if err != nil {
			return a, err
		}
		n := int64(1)
		for _, size := range info.Shape {
			n *= int64(size)
		}
		a.Parameters, a.Bytes = a.Parameters+n, a.Bytes+int64(len(data))
		types[info.DType] += n
		if most := types[a.Type]; types[info.DType] > most {
			a.Type = info.DType
		}
		fmt.Fprintln(sum, name, info.DType, info.Shape)
	}
	if err := json.NewEncoder(sum).Encode(a); err != nil {
		return a, fmt.Errorf("ridge: the configuration of %s has a value that JSON cannot have: %w", b.Name, err)
	}
	a.Digest = fmt.Sprintf("%x", sum.Sum(nil))
	return a, nil
}
