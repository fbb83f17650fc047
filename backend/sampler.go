package backend

import (
	"time"

	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

// Sampler is a device that samples tokens where the logits lie, so that the host need not read them, nor wait for the tokens
// of one step before it launches the next.
type Sampler interface {
	// CanSample reports whether it samples from rows of this value, at most so many tokens a step.
	CanSample(v *graph.Value, most int) bool
	// Sample samples tokens from the rows of v that the last step computed; the logits stay as they are. Like Run it may return
	// when the work is queued. The next step may use the tokens before the host has read them: Batch.FutureTokens. It is called
	// once for every step, with no samples where the step needs none.
	Sample(v *graph.Value, b Buffer, samples []sampling.Sample) error
	// SampleResults waits for the oldest Sample call whose results have not been read, and writes them to dst, one for each of
	// its samples; dst[i].Top is reused. With nil they are dropped. Two may be outstanding. It returns how long the device worked
	// on that step and its samples.
	SampleResults(dst []sampling.Result) (time.Duration, error)
}
