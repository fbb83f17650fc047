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

// medusa opens the Medusa heads that Options.Speculation names for the model's program, on its device.
func (m *Model) medusa(o Options, prog *compile.Program) (draft.Drafter, error) {
	if h := prog.Graph.Hidden; h == nil || h.Deferred > 0 {
		return nil, fmt.Errorf("ridge: device %s does not keep the hidden states that Medusa heads go on from; take the CPU, or another method", m.device.Info().Name)
	}
	source, err := weights.Open(o.Speculation.Model)
	if err != nil {
		return nil, err
	}
	dev, err := m.runtime.devices.Open(o.device())
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	var reserved int64
	release := func() error {
		m.runtime.giveBack(dev.Info().Name, reserved)
		return errors.Join(dev.Close(), source.Close())
	}
	heads, err := medusa.Open(headFiles{source}, prog.HiddenWidth(), m.Vocab())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ridge: %s: %w", source.Path, err), release())
	}
	var programs []*compile.Program
	reserved, err = m.runtime.place(dev.Info().Name, func(int64) (bytes int64, err error) {
		programs, err = heads.Compile(dev, m.limits.Seqs)
		for _, p := range programs {
			use := p.Memory()
			bytes += use.Weights + use.Arena
		}
		return bytes, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ridge: the Medusa heads: %w", err), release())
	}
	return medusa.New(programs, release), nil
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
