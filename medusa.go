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
func (m *Model) medusa(o Options, prog *compile.Program) (draft.Drafter, error) {
	source, err := weights.Open(o.Speculation.Model)
	if err != nil {
		return nil, err
	}
	var reserved int64
	release := func() error {
		m.runtime.giveBack(m.device.Info().Name, reserved)
		return source.Close()
	}
	heads, err := medusa.Open(headFiles{source}, prog.HiddenWidth(), m.Vocab())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ridge: %s: %w", source.Path, err), release())
	}
	var programs []*compile.Program
	reserved, err = m.runtime.place(m.device.Info().Name, func(int64) (bytes int64, err error) {
		programs, err = heads.Compile(m.device, m.limits.Seqs)
		for _, p := range programs {
			use := p.Memory()
			bytes += use.Weights + use.Arena
		}
		return bytes, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ridge: the Medusa heads: %w", err), release())
	}
	d, err := medusa.New(programs, prog.Kept(0), release)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ridge: %w", err), release())
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
