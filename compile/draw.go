package compile

import (
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
)

// Draws reports whether the device chooses tokens itself: then Draw and Drawn take the place of Rows.
func (p *Program) Draws() bool {
	s, ok := p.dev.(backend.Sampler)
	return ok && s.Draws(p.Graph.Output, p.Limits.Logits)
}

// Draw makes draws from the logits of the step that Run was last given: Limits.Logits at most.
func (p *Program) Draw(draws []sampling.Draw) error {
	return p.dev.(backend.Sampler).Draw(p.Graph.Output, p.where[p.Graph.Output], draws)
}

// Drawn waits for the oldest Draw not yet asked for, and gives what came of it and how long the device was at work on that
// step.
func (p *Program) Drawn(dst []sampling.Drawn) (time.Duration, error) {
	return p.dev.(backend.Sampler).Drawn(dst)
}
