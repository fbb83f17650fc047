package model

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// shapesJSON holds the sizes of well-known models by name: of each the fields of its published config.json that
// matter here.
//
//go:embed shapes.json
var shapesJSON []byte

// shapes parses the table.
func shapes() map[string]json.RawMessage {
	var table map[string]json.RawMessage
	if err := json.Unmarshal(shapesJSON, &table); err != nil {
		panic(fmt.Sprintf("model: shapes.json: %v", err)) // it is part of the program
	}
	return table
}

// Shapes lists the well-known models whose sizes Shape knows.
func Shapes() []string {
	var names []string
	for name := range shapes() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Shape is a well-known model without weights: its graph can be built, and be measured or filled with numbers.
func Shape(name string) (*Model, error) {
	config, ok := shapes()[strings.ToLower(name)]
	if !ok {
		return nil, fmt.Errorf("model: no shape is called %q; there are %s", name, strings.Join(Shapes(), ", "))
	}
	return FromConfig("shapes.json: "+name, config)
}

// FromConfig reads a Hugging Face config.json of a model whose weights are not there. Its matrices count as BF16, as such
// models are published.
func FromConfig(name string, config []byte) (*Model, error) {
	m, err := FromHF(name, config, nil)
	if err != nil {
		return nil, err
	}
	m.format = quant.BF16
	m.Config.Delta.Tiled = m.Arch == &qwen35 && m.Config.Delta.ValueHeads != m.Config.Delta.KeyHeads // as the GGUF file that it may be written as
	return m, nil
}
