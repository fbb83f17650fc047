package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/hiddenmodel"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// mtp makes the file's layer that predicts further tokens a program beside the model's, on its device.
func (m *Model) mtp(o Options, prog *compile.Program) (draft.Drafter, error) {
	cache, err := device.CacheType(o.Backend, o.Cache)
	if err != nil {
		return nil, err
	}
	g, err := m.dir.Model.MTPGraph(model.Options{Act: m.device.Info().Act, Cache: cache})
	if err != nil {
		return nil, fmt.Errorf("ridge: %w", err)
	}
	return m.hiddenModel(hiddenmodel.Model{Name: string(draft.MTP), Target: []compile.DeviceRows{prog.Kept(0)}, Vocab: m.Vocab()}, nil, g, m.dir, func() error { return nil })
}

// hiddenModel compiles the graphs of a drafter that goes on from hidden states on the model's device: of what combines them, nil if nothing does,
// and of its layer. files has their weights; closeFiles is called when the drafter is closed, and if there is none.
func (m *Model) hiddenModel(d hiddenmodel.Model, combine, layer *graph.Graph, files compile.Tensors, closeFiles func() error) (draft.Drafter, error) {
	name := m.device.Info().Name
	var reserved int64
	var programs []*compile.Program
	release := func() error {
		m.runtime.giveBack(name, reserved)
		return closeFiles()
	}
	lim := hiddenmodel.Limits(m.limits)
	reserved, err := m.runtime.place(name, func(others int64) (bytes int64, err error) {
		for _, g := range []*graph.Graph{combine, layer} {
			if g == nil {
				programs = append(programs, nil)
				continue
			}
			p, err := m.beside(g, files, lim, others+bytes)
			if err != nil {
				return bytes, err
			}
			use := p.Memory()
			bytes += use.Weights + use.Caches + use.Arena
			programs = append(programs, p)
		}
		return bytes, nil
	})
	if err == nil {
		d.Combine, d.Layer, d.Close = programs[0], programs[1], release
		var drafter draft.Drafter
		if drafter, err = hiddenmodel.New(d); err == nil {
			return drafter, nil
		}
	}
	for _, p := range programs {
		if p != nil {
			p.Close()
		}
	}
	return nil, errors.Join(fmt.Errorf("ridge: drafting by %s: %w", d.Name, err), release())
}

// beside compiles a graph for the model's device, which has so many bytes reserved for others.
func (m *Model) beside(g *graph.Graph, files compile.Tensors, lim backend.Limits, others int64) (*compile.Program, error) {
	info := m.device.Info()
	g, err := pass.Run(g, pass.All, pass.Options{Q8: info.Q8, BF16: info.BF16, Kernels: compile.Kernels{Device: m.device}})
	if err != nil {
		return nil, err
	}
	if err := draftFits(m.device, g, lim, others); err != nil {
		return nil, err
	}
	return compile.Compile(g, m.device, files, lim)
}
