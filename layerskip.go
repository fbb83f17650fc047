package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/layerskip"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// layerSkip drafts with the model's first layers.
func (m *Model) layerSkip(o Options, prog *compile.Program) (draft.Drafter, error) {
	layers := m.dir.Model.Config.Layers
	if k := o.Speculation.ExitLayer; k >= layers {
		return nil, fmt.Errorf("ridge: exit_layer is %d, and the model has %d layers; 1 to %d are possible", k, layers, layers-1)
	}
	parts, reserved, err := m.parts(o, prog, func(g *graph.Graph) ([]*graph.Graph, error) {
		first, err := graph.Segment(g, 0, o.Speculation.ExitLayer)
		return []*graph.Graph{first}, err
	})
	if err != nil {
		return nil, fmt.Errorf("ridge: drafting by layerskip: %w", err)
	}
	return layerskip.New(parts[0], func() error {
		m.runtime.giveBack(m.device.Info().Name, reserved)
		return nil
	}), nil
}

// parts are programs of parts of the model, with the weights and the cache of its own program, and the memory that is reserved for them, which the caller gives back
// when they are closed.
func (m *Model) parts(o Options, prog *compile.Program, of func(*graph.Graph) ([]*graph.Graph, error)) (parts []*compile.Program, reserved int64, err error) {
	if o.MaxLoRAs > 0 {
		return nil, 0, errors.New("the model takes adapters (MaxLoRAs, --max-loras), which programs of some of its layers do not know; leave one of both out")
	}
	cache, err := device.CacheType(o.Backend, o.Cache)
	if err != nil {
		return nil, 0, err
	}
	info := m.device.Info()
	whole, err := m.dir.Model.Graph(model.Options{Act: info.Act, Cache: cache})
	if err != nil {
		return nil, 0, err
	}
	graphs, err := of(whole)
	if err != nil {
		return nil, 0, err
	}
	weights, err := pass.OnLoadFormat(o.Quantization, info.Act)
	if err != nil {
		return nil, 0, err
	}
	reserved, err = m.runtime.place(info.Name, func(int64) (bytes int64, err error) {
		for _, g := range graphs {
			if g, err = pass.Run(g, pass.All, pass.Options{Q8: info.Q8, BF16: info.BF16, Weights: weights, Kernels: compile.Kernels{Device: m.device}}); err != nil {
				return bytes, err
			}
			part, err := prog.Part(g, m.dir)
			if err != nil {
				return bytes, err
			}
			bytes += part.Memory().Arena
			parts = append(parts, part)
		}
		return bytes, nil
	})
	if err != nil {
		closeAll(parts)
		m.runtime.giveBack(info.Name, reserved)
		return nil, 0, err
	}
	return parts, reserved, nil
}
