package adapter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

// The names of a PEFT folder.
const (
	configFile  = "adapter_config.json"
	weightsFile = "adapter_model.safetensors"
)

// openPEFT opens a folder that PEFT's save_pretrained has written.
func openPEFT(dir string) (*Adapter, error) {
	file := filepath.Join(dir, configFile)
	data, err := regular.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("adapter: %s has no %s; give the folder of a PEFT adapter or a GGUF adapter", dir, configFile)
	}
	if err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	c, err := parseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("adapter: %s: %w", file, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "adapter_model.bin")); err == nil {
		if _, err := os.Stat(filepath.Join(dir, weightsFile)); err != nil {
			return nil, fmt.Errorf("adapter: %s has only PyTorch weights, adapter_model.bin, which Ridge does not read; save it as safetensors", dir)
		}
	}
	s, err := weights.Open(filepath.Join(dir, weightsFile))
	if err != nil {
		return nil, err
	}
	a := &Adapter{Path: dir, Kind: weights.HuggingFace, Base: c.BaseModel, Config: c, Modules: map[string]*Module{}, Invocation: c.invocation, source: s}
	if err := a.readPEFT(); err != nil {
		s.Close()
		return nil, err
	}
	return a, nil
}

// part is one of a module's tensors: the end of its name, and how it is read.
type part struct {
	end string
	put func(a *Adapter, m *Module, tensor string) error
}

// parts are the ends of the names of a module's tensors. Older versions have the adapter's name in between, or a .weight behind.
var parts = []part{
	{".lora_A.weight", func(a *Adapter, m *Module, tensor string) (err error) { m.A, err = a.matrix(tensor); return }},
	{".lora_B.weight", func(a *Adapter, m *Module, tensor string) (err error) { m.B, err = a.matrix(tensor); return }},
	{".lora_B.bias", func(a *Adapter, m *Module, tensor string) (err error) { m.Bias, err = a.vector(tensor); return }},
	{".lora_magnitude_vector", magnitude},
	{".lora_magnitude_vector.weight", magnitude},
	{".lora_embedding_A", func(a *Adapter, m *Module, tensor string) error {
		t, err := a.matrix(tensor)
		if err != nil {
			return err
		}
		m.Table = true
		m.A, err = t.Transposed() // PEFT has it as [rank, vocab]
		return err
	}},
	{".lora_embedding_B", func(a *Adapter, m *Module, tensor string) (err error) {
		m.Table = true
		m.B, err = a.matrix(tensor)
		return
	}},
	{".token_adapter.trainable_tokens_delta", func(a *Adapter, m *Module, tensor string) (err error) {
		m.Rows, err = a.matrix(tensor)
		return
	}},
	{".trainable_tokens_delta", func(a *Adapter, m *Module, tensor string) (err error) { m.Rows, err = a.matrix(tensor); return }},
	{".base_layer.weight", func(a *Adapter, m *Module, tensor string) (err error) { m.Base, err = a.matrix(tensor); return }},
	{".modules_to_save.weight", saved},
	{".modules_to_save.bias", savedBias},
	{".weight", saved},
	{".bias", savedBias},
}

func magnitude(a *Adapter, m *Module, tensor string) (err error) {
	m.Magnitude, err = a.vector(tensor)
	return
}

func saved(a *Adapter, m *Module, tensor string) (err error) {
	m.Saved, err = a.matrix(tensor)
	return
}

func savedBias(a *Adapter, m *Module, tensor string) (err error) {
	m.SavedBias, err = a.vector(tensor)
	return
}

func (a *Adapter) readPEFT() error {
	for _, tensor := range a.source.Names() {
		name := strings.TrimPrefix(tensor, "base_model.model.")
		i := slices.IndexFunc(parts, func(p part) bool { return strings.HasSuffix(name, p.end) })
		if i < 0 {
			return a.fail("tensor %s is of a kind that is not supported", tensor)
		}
		module := strings.TrimSuffix(name, parts[i].end)
		outer, nested := strings.CutSuffix(module, ".base_layer")
		if nested && a.Config.parametersOf(outer) < 2 || strings.Contains(module, ".lora_") {
			return a.fail("tensor %s is of a kind that is not supported", tensor)
		}
		if err := parts[i].put(a, a.module(module), tensor); err != nil {
			return err
		}
	}
	for _, name := range a.Names() {
		m := a.Modules[name]
		if err := a.tokens(name, m); err != nil {
			return err
		}
		parameter := len(m.A.Data) > 0 && a.Config.parametersOf(name) > 0
		if parameter {
			if err := a.parameter(name, m); err != nil {
				return err
			}
		}
		if err := a.check(name, m); err != nil {
			return err
		}
		if len(m.A.Data) == 0 || parameter {
			continue
		}
		scale, rank, err := a.Config.scaleOf(name)
		if err != nil {
			return a.fail("%v", err)
		}
		if m.Scale = scale; m.B.Cols != rank {
			return a.fail("module %s has rank %d, and %s says %d", name, m.B.Cols, configFile, rank)
		}
		if a.Config.DoRA && m.Magnitude == nil && !m.Table {
			return a.fail("use_dora is set and module %s has no lora_magnitude_vector", name)
		}
		if a.Config.LoRABias && m.Bias == nil && !m.Table {
			return a.fail("lora_bias is set and module %s has no lora_B.bias", name)
		}
	}
	if len(a.Modules) == 0 {
		return a.fail("%s has no tensors", weightsFile)
	}
	return nil
}

// tokens says which rows were trained, in ascending order.
func (a *Adapter) tokens(name string, m *Module) error {
	if len(m.Rows.Data) == 0 {
		return nil
	}
	m.Table, m.Tokens = true, slices.Clone(a.Config.tokensOf(name))
	if len(m.Tokens) != m.Rows.Rows {
		return a.fail("module %s has %d rows of trained tokens and trainable_token_indices names %d", name, m.Rows.Rows, len(m.Tokens))
	}
	order := make([]int, len(m.Tokens))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(i, j int) bool { return m.Tokens[order[i]] < m.Tokens[order[j]] })
	sorted := quant.Tensor{Format: m.Rows.Format, Rows: m.Rows.Rows, Cols: m.Rows.Cols}
	ids := make([]int32, len(order))
	for i, from := range order {
		sorted.Data = append(sorted.Data, m.Rows.Row(from)...)
		if ids[i] = m.Tokens[from]; i > 0 && ids[i] == ids[i-1] {
			return a.fail("trainable_token_indices names token %d twice", ids[i])
		}
	}
	m.Rows, m.Tokens = sorted, ids
	return nil
}
