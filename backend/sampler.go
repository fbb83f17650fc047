package backend

import (
	"time"

	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

// Sampler is a device that chooses tokens where the logits lie, so that the host need not see them, nor wait for the tokens
// before it gives the device the next step.
type Sampler interface {
	// Draws reports whether it draws from rows of this value, up to so many at once.
	Draws(v *graph.Value, most int) bool
	// Draw makes draws from the rows of v that the last step computed; the logits stay as they are. Like Run it may return
	// when the work is queued. The next step may have the tokens before anybody has seen them: Batch.Fed. No draws at all mark
	// the end of a step that nobody draws from.
	Draw(v *graph.Value, b Buffer, draws []sampling.Draw) error
	// Drawn waits for the oldest Draw whose tokens have not been asked for, and writes them to dst, one for each of its
	// draws; dst[i].Top is reused. With nil they are dropped. Two may be outstanding. It returns how long the device worked on
	// that step and its draws.
	Drawn(dst []sampling.Drawn) (time.Duration, error)
}
