package engine

import (
	"math/rand/v2"
	"slices"

	"github.com/ridge-llm/ridge/engine/kv"
)

// pressure takes pages of the cache away from the engine at any step and gives them back some steps later, so that requests are preempted and swapped out
// at whatever they are then: in the middle of a prompt, with drafts, forked, ahead of results.
type pressure struct {
	rng  *rand.Rand // of its own: other simulations stay as they are
	rate float64    // of steps at which it begins
	seq  kv.Seq     // that holds the pages
	left int        // steps until it gives them back; 0: it holds none
}

func newPressure(seed uint64) *pressure {
	p := &pressure{rng: rand.New(rand.NewPCG(seed, 23))}
	if p.rng.IntN(3) == 0 {
		p.rate = 0.2 * p.rng.Float64()
	}
	return p
}

// step begins or ends to hold pages.
func (p *pressure) step(e *loop) {
	switch {
	case p.left > 1:
		p.left--
	case p.left == 1:
		p.release(e)
	case p.rng.Float64() < p.rate:
		available := e.pages.Available()
		n := (slices.Min(available[:e.pages.Groups()]) - p.rng.IntN(2)) * e.pages.PageSize()
		if n <= 0 {
			return
		}
		var ok bool
		if _, ok = e.pages.Append(&p.seq, n, nil); ok {
			p.left = 1 + p.rng.IntN(6)
		}
	}
}

// release gives the pages back.
func (p *pressure) release(e *loop) {
	if p.left > 0 {
		e.pages.Free(&p.seq)
		p.left = 0
		e.inbox.signal()
	}
}
