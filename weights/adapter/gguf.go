package adapter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/weights"
)

// Keys of a GGUF adapter, as llama.cpp's convert_lora_to_gguf.py writes them.
const (
	typeKey       = "general.type"
	archKey       = "general.architecture"
	kindKey       = "adapter.type"
	alphaKey      = "adapter.lora.alpha"
	invocationKey = "adapter.alora.invocation_tokens"
)

// openGGUF opens llama.cpp's form: for each matrix X of the base X.lora_a [rank, in] and X.lora_b [out, rank]. Of embeddings A is [vocab,
// rank].
func openGGUF(path string) (*Adapter, error) {
	s, err := weights.Open(path)
	if err != nil {
		var unknown *weights.UnknownFileError
		if errors.As(err, &unknown) {
			return nil, fmt.Errorf("adapter: %s is neither a GGUF adapter nor the folder of a PEFT adapter; give the path of one", path)
		}
		return nil, err
	}
	a := &Adapter{Path: path, Kind: weights.GGUF, Modules: map[string]*Module{}, source: s}
	if err := a.readGGUF(); err != nil {
		s.Close()
		return nil, err
	}
	return a, nil
}

func (a *Adapter) readGGUF() error {
	text := func(key string) string {
		v, _ := a.source.Metadata[key].(string)
		return v
	}
	if a.source.Kind != weights.GGUF || text(typeKey) != "adapter" || text(kindKey) != "lora" {
		return a.fail("is not an adapter: a GGUF adapter has %s = adapter and %s = lora, a PEFT folder %s", typeKey, kindKey, configFile)
	}
	a.Arch = text(archKey)
	alpha, _ := a.source.Metadata[alphaKey].(float32)
	tokens, err := tokenIDs(a.source.Metadata[invocationKey])
	if err != nil {
		return a.fail("%s: %v", invocationKey, err)
	}
	a.Invocation = tokens
	for _, name := range a.source.Names() {
		t, err := a.matrix(name)
		if err != nil {
			return err
		}
		if base, ok := strings.CutSuffix(name, ".lora_a"); ok {
			m := a.module(base)
			m.A, m.Table = t, strings.HasPrefix(base, "token_embd.")
		} else if base, ok := strings.CutSuffix(name, ".lora_b"); ok {
			a.module(base).B = t
		} else {
			return a.fail("tensor %s is neither a .lora_a nor a .lora_b; nothing else is supported in a GGUF adapter", name)
		}
	}
	for _, name := range a.Names() {
		m := a.Modules[name]
		if strings.HasSuffix(name, "_exps.weight") && m.B.Cols > 0 {
			m.Experts = m.A.Rows / m.B.Cols
		}
		if err := a.check(name, m); err != nil {
			return err
		}
		if m.Scale = 1; alpha != 0 { // as llama.cpp has it
			m.Scale = alpha / float32(m.B.Cols)
		}
	}
	if len(a.Modules) == 0 {
		return a.fail("has no tensors")
	}
	return nil
}
