package modeldir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/tokenizer"
	"github.com/ridge-llm/ridge/weights"
)

// Tokenizer reads the model's tokenizer: tokenizer.json beside the weights, or a GGUF file's metadata.
func (d *Dir) Tokenizer() (*tokenizer.Tokenizer, error) {
	if d.Source.Kind == weights.GGUF {
		t, err := tokenizer.FromGGUF(d.Source.Metadata)
		if err != nil {
			return nil, fmt.Errorf("modeldir: %s: %w", d.Source.Path, err)
		}
		return t, nil
	}
	file, err := d.Source.Sidecar("tokenizer.json")
	if err != nil {
		return nil, err
	}
	config, err := d.optional("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.FromJSON(file, config)
	if err != nil {
		return nil, fmt.Errorf("modeldir: %s: %w", d.Source.Path, err)
	}
	return t, nil
}

// optional is a file beside the weights, nil when there is none.
func (d *Dir) optional(name string) ([]byte, error) {
	data, err := d.Source.Sidecar(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Generation is what the model's authors recommend; nil says that they recommend nothing.
type Generation struct {
	Ends              []int32 // tokens that end an answer
	Greedy            bool    // do_sample is false
	Temperature       *float64
	TopK              *int
	TopP              *float64
	MinP              *float64
	RepetitionPenalty *float64
}

// Generation reads generation_config.json and the end tokens that config.json names, or a GGUF file's metadata.
func (d *Dir) Generation() (Generation, error) {
	var g Generation
	if d.Source.Kind == weights.GGUF {
		return ggufGeneration(d.Source.Metadata), nil
	}
	if err := d.readGeneration(&g, "config.json", d.Source.Config); err != nil {
		return g, err
	}
	data, err := d.optional("generation_config.json")
	if err != nil || data == nil {
		return g, err
	}
	return g, d.readGeneration(&g, "generation_config.json", data)
}

// readGeneration takes over what a file says.
func (d *Dir) readGeneration(g *Generation, name string, data []byte) error {
	var c struct {
		EOS               json.RawMessage `json:"eos_token_id"`
		DoSample          *bool           `json:"do_sample"`
		Temperature       *float64        `json:"temperature"`
		TopK              *int            `json:"top_k"`
		TopP              *float64        `json:"top_p"`
		MinP              *float64        `json:"min_p"`
		RepetitionPenalty *float64        `json:"repetition_penalty"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("modeldir: %s: %s: %w", d.Source.Path, name, err)
	}
	if len(c.EOS) > 0 && string(c.EOS) != "null" {
		var one int32
		if json.Unmarshal(c.EOS, &one) == nil {
			g.Ends = []int32{one}
		} else if err := json.Unmarshal(c.EOS, &g.Ends); err != nil {
			return fmt.Errorf("modeldir: %s: %s: eos_token_id is %s and a token id or a list of them is wanted", d.Source.Path, name, c.EOS)
		}
	}
	if c.DoSample != nil {
		g.Greedy = !*c.DoSample
	}
	g.Temperature, g.TopK, g.TopP, g.MinP = c.Temperature, c.TopK, c.TopP, c.MinP
	g.RepetitionPenalty = c.RepetitionPenalty
	return nil
}

// OpenTokenizer reads the tokenizer of a model that is given as for Open, or a tokenizer.json by itself; no weights are
// needed, nor does the architecture matter.
func OpenTokenizer(path string) (*tokenizer.Tokenizer, error) {
	dir := path
	if filepath.Base(path) == "tokenizer.json" {
		dir = filepath.Dir(path)
	} else if info, err := os.Stat(path); err != nil || !info.IsDir() {
		s, err := weights.Open(path)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		return (&Dir{Name: nameOf(path), Source: s}).Tokenizer()
	}
	file, err := regular.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, fmt.Errorf("modeldir: %s has no tokenizer.json: %w", dir, err)
	}
	config, err := regular.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	t, err := tokenizer.FromJSON(file, config)
	if err != nil {
		return nil, fmt.Errorf("modeldir: %s: %w", dir, err)
	}
	return t, nil
}
