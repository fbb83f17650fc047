package ridge

import (
	"errors"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/diffusion"
)

// Diffusion is how an answer of a masked diffusion model is found (LLaDA, Dream): such a model does not write from left to right, it fills masked tokens in,
// block by block. The zero value is what such models are used with; others take nothing else.
type Diffusion = diffusion.Options

// DiffusionAlgorithm is which tokens of a block come first: low_confidence, topk_margin, entropy, random or origin.
type DiffusionAlgorithm = diffusion.Algorithm

// FillsIn reports whether the model is a masked diffusion model: Params.Diffusion is for those.
func (m *Model) FillsIn() bool { return m.dir.Model.Config.Diffusion != nil }

// errDiffusion says what a masked diffusion model cannot be loaded with.
func (m *Model) errDiffusion(o Options) error {
	switch {
	case !m.FillsIn():
		return nil
	case o.Speculation.Method != "":
		return errors.New("ridge: Speculation is set and the model fills masked tokens in (diffusion): its steps bring several tokens without; leave it out")
	case len(o.EarlyExit.Layers) > 0:
		return errors.New("ridge: EarlyExit is set and the model fills masked tokens in (diffusion); leave it out")
	case o.Record != nil:
		return errors.New("ridge: Record is set and the model fills masked tokens in (diffusion), whose answers cannot be replayed; leave it out")
	}
	return nil
}

// finding is what the engine has to know of a masked diffusion model; nil: it is none.
func (m *Model) finding() *engine.Diffusion {
	d := m.dir.Model.Config.Diffusion
	if d == nil {
		return nil
	}
	return &engine.Diffusion{Mask: d.Mask, Shift: d.Shift, Block: d.Block}
}

// diffusionRows is how many rows of logits one request may have in any step: what its block length is bounded by.
const diffusionRows = 256

// blockLimits gives steps of a masked diffusion model logits for a block of every request.
func (m *Model) blockLimits(lim *backend.Limits) {
	if d := m.finding(); d != nil {
		lim.Logits = min(max(lim.Seqs*(d.BlockLength()+1), diffusionRows+1), lim.Tokens)
	}
}
