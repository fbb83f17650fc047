package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// modelShapeFlags choose a model by its shape: no weights are needed.
type modelShapeFlags struct {
	number, cache, quantization string
	kvType                      graph.Type
}

func (f *modelShapeFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.number, "type", "", "number format of the matrices, as for ridge convert; default: as the model has them")
	fl.StringVar(&f.cache, "kv-type", "f16", "type of cached keys and values: f16, bf16, f32, int8, fp8, int4")
	addQuantization(fl, &f.quantization)
}

// parse reads the flags that are names.
func (f *modelShapeFlags) parse() error {
	types := map[string]graph.Type{"f16": graph.F16, "bf16": graph.BF16, "f32": graph.F32, "int8": graph.I8, "fp8": graph.F8, "int4": graph.I4}
	var ok bool
	if f.kvType, ok = types[f.cache]; !ok {
		return fmt.Errorf("--kv-type %q; f16, bf16, f32, int8, fp8 and int4 are possible", f.cache)
	}
	return nil
}

// model finds the model's configuration.
func (f *modelShapeFlags) model(arg string) (*model.Model, error) {
	if arg == "" {
		b, err := openModel(nil)
		if err != nil {
			return nil, err
		}
		return b.Model, nil
	}
	if slices.Contains(model.Shapes(), strings.ToLower(arg)) {
		return model.Shape(arg)
	}
	config := arg
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		config = filepath.Join(arg, "config.json")
	}
	if strings.EqualFold(filepath.Ext(config), ".json") {
		data, err := os.ReadFile(config)
		if err != nil {
			return nil, err
		}
		return model.FromConfig(config, data)
	}
	if n, err := lookUp(arg, ""); err == nil && n.ref == nil && !exists(n.name) {
		return nil, fmt.Errorf("there is no file %s, and no shape of that name; shapes are %s", arg, strings.Join(model.Shapes(), ", "))
	}
	path, err := modelPath(arg)
	if err != nil {
		return nil, err
	}
	b, err := modeldir.Open(path)
	if err != nil {
		return nil, err
	}
	return b.Model, nil // stays open: it is mapped, and the program soon ends
}

// graph builds a model's graph, before the passes, for a type of activations.
func (f *modelShapeFlags) graph(m *model.Model, act graph.Type) (*graph.Graph, error) {
	g, err := m.Graph(model.Options{Act: act, Cache: f.kvType})
	if err != nil {
		return nil, err
	}
	if f.number != "" {
		if err := f.retype(m, g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// passes is the options of passes on a device.
func (f *modelShapeFlags) passes(p *price.Profile) (o pass.Options, err error) {
	o = pass.Options{Q8: p.Q8, BF16: p.RoundBF16}
	if k, ok := cuda.CapabilityOf(p.Kernels); ok {
		o.Kernels = k
	}
	if o.Weights, err = pass.OnLoadFormat(f.quantization, p.ActType()); err != nil {
		return o, fmt.Errorf("--quantization: %w", err)
	}
	o.Inputs = pass.OnLoadInputs(f.quantization)
	return o, nil
}

// retype gives the graph's matrices the formats that --type would give them in a file.
func (f *modelShapeFlags) retype(m *model.Model, g *graph.Graph) error {
	t, err := convert.ParseType(f.number)
	if err != nil {
		return err
	}
	formats, err := convert.Formats(m, t)
	if err != nil {
		return err
	}
	for _, w := range g.Weights {
		if format, ok := formats[w.Tensor]; ok {
			w.Format = format
		}
	}
	return nil
}
