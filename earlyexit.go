package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/graph"
)

// EarlyExit has tokens leave the model before its last layer where the model's head is sure enough of them there (CALM, arXiv:2207.07061). Answers are others than
// the whole model's, the more so the lower the threshold: ridge eval --early-exit says by how much. Speculation with the method layerskip is the exact form.
type EarlyExit struct {
	Layers    []int   // how many layers come before each exit, ascending; empty: no token leaves
	Threshold float64 // by how much the likeliest token's probability must be more than the second's for a token to leave, 0 to 1
}

// check refuses settings that mean nothing, or do not go with others.
func (e EarlyExit) check(o Options) error {
	if len(e.Layers) == 0 {
		if e.Threshold != 0 {
			return fmt.Errorf("ridge: EarlyExit has a threshold of %g and no layers; name those after which tokens may leave", e.Threshold)
		}
		return nil
	}
	if err := earlyexit.Options(e).Check(0); err != nil {
		return fmt.Errorf("ridge: %w", err)
	}
	switch {
	case o.Speculation.Method != "":
		return errors.New("ridge: EarlyExit and Speculation are both set, and drafts are verified by all layers; leave one out")
	case o.MaxLoRAs > 0:
		return errors.New("ridge: EarlyExit and MaxLoRAs (--max-loras, --lora) are both set, and adapters are of all layers; leave one out")
	}
	return nil
}

// exiting is the runner of a model that tokens leave early: its program, and parts of it.
func (m *Model) exiting(o Options, prog *compile.Program) (*earlyexit.Runner, error) {
	exits := earlyexit.Options(o.EarlyExit)
	parts, reserved, err := m.parts(o, prog, func(g *graph.Graph) ([]*graph.Graph, error) { return exits.Graphs(g) })
	if err != nil {
		return nil, fmt.Errorf("ridge: %w", err)
	}
	name := m.device.Info().Name
	r, err := earlyexit.New(prog, parts, exits, func() { m.runtime.giveBack(name, reserved) })
	if err != nil {
		closeAll(parts)
		m.runtime.giveBack(name, reserved)
		return nil, fmt.Errorf("ridge: %w", err)
	}
	return r, nil
}

// EarlyExits is behind how many layers tokens leave the model, the last one included, and how many have left there so far; nil without Options.EarlyExit. Tokens of steps
// with prompts are not among them: those compute all layers.
func (m *Model) EarlyExits() (layers []int, tokens []int64) {
	if m.exits == nil {
		return nil, nil
	}
	return m.exits.Layers(), m.exits.Exits()
}
