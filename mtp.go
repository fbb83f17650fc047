package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/hiddenmodel"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/model"
)

// mtp makes the file's layer that predicts further tokens a program beside the model's, on its device.
func (m *Model) mtp(o Options, hidden []compile.DeviceRows) (draft.Drafter, error) {
	cache, err := device.CacheType(o.Backend, o.Cache)
	if err != nil {
		return nil, err
	}
	g, err := m.dir.Model.MTPGraph(model.Options{Act: m.device.Info().Act, Cache: cache})
	if err != nil {
		return nil, fmt.Errorf("ridge: %w", err)
	}
	return m.hiddenModel(hiddenmodel.Model{Name: string(draft.MTP), Branch: o.Speculation.Branch, Target: hidden, Vocab: m.Vocab()}, nil, g, m.dir, func() error { return nil })
}

// hiddenModel compiles the graphs of a drafter that goes on from hidden states on the model's device: of what combines them, nil if nothing does,
// and of its layer. files has their weights; closeFiles is called when the drafter is closed, and if there is none.
func (m *Model) hiddenModel(d hiddenmodel.Model, combine, layer *graph.Graph, files compile.Tensors, closeFiles func() error) (draft.Drafter, error) {
	failed := func(err error) error { return fmt.Errorf("ridge: drafting by %s: %w", d.Name, err) }
	programs, reserved, err := m.beside([]*graph.Graph{combine, layer}, files, hiddenmodel.Limits(m.limits, d.Branch))
	if err != nil {
		return nil, errors.Join(failed(err), closeFiles())
	}
	d.Combine, d.Layer = programs[0], programs[1]
	d.Close = func() error {
		m.runtime.giveBack(m.device.Info().Name, reserved)
		return closeFiles()
	}
	drafter, err := hiddenmodel.New(d)
	if err != nil {
		closeAll(programs)
		return nil, errors.Join(failed(err), d.Close())
	}
	return drafter, nil
}
