package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/medusa"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

// medusa opens the Medusa heads that Options.Speculation names, on the device of the model's program, whose hidden states they go on from there.
func (m *Model) medusa(o Options, prog *compile.Program, hidden compile.DeviceRows) (draft.Drafter, error) {
	source, err := weights.Open(o.Speculation.Model)
	if err != nil {
		return nil, err
	}
	failed := func(err error) error { return fmt.Errorf("ridge: the Medusa heads in %s: %w", source.Path, err) }
	heads, err := medusa.Open(headFiles{source}, prog.HiddenWidth(), m.Vocab())
	if err != nil {
		return nil, errors.Join(failed(err), source.Close())
	}
	graphs, err := heads.Graphs(m.device.Info().Act)
	if err != nil {
		return nil, errors.Join(failed(err), source.Close())
	}
	programs, reserved, err := m.beside(graphs, headFiles{source}, medusa.Limits(m.limits))
	if err != nil {
		return nil, errors.Join(failed(err), source.Close())
	}
	release := func() error {
		m.runtime.giveBack(m.device.Info().Name, reserved)
		return source.Close()
	}
	d, err := medusa.New(programs, hidden, release)
	if err != nil {
		closeAll(programs)
		return nil, errors.Join(failed(err), release())
	}
	return d, nil
}

// headFiles is the tensors of a file of heads.
type headFiles struct{ *weights.Source }

// Tensor implements recipe.Tensors.
func (f headFiles) Tensor(name string) (quant.Tensor, bool) {
	if _, ok := f.Info(name); !ok {
		return quant.Tensor{}, false
	}
	t, err := f.Source.Tensor(name)
	return t, err == nil
}
