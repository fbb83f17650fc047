package compile

import (
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
)

// CanSample reports whether the device samples tokens itself: then Sample and SampleResults take the place of Rows.
func (p *Program) CanSample() bool {
	s, ok := p.dev.(backend.Sampler)
	return ok && s.CanSample(p.Graph.Output, p.limits.Logits)
}

// RunsAhead implements Runner.
func (p *Program) RunsAhead() bool { return true }

// Sample samples tokens from the logits of the step that Run was last given: Limits.Logits at most.
func (p *Program) Sample(samples []sampling.Sample) error {
	return p.dev.(backend.Sampler).Sample(p.Graph.Output, p.where[p.Graph.Output], samples)
}

// SampleResults waits for the oldest Sample call not yet read, and gives its results and how long the device worked on that step.
func (p *Program) SampleResults(dst []sampling.Result) (time.Duration, error) {
	return p.dev.(backend.Sampler).SampleResults(dst)
}
