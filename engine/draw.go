package engine

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/engine/sample"
)

// draw is the choice of one request's next token.
type draw struct {
	request *request
	logits  []float32 // [vocab], the request's row of the step
	emitted int       // tokens
	reason  sample.Reason
	err     error
}

// do chooses the token and hands it over. A panic on the way ends that request alone.
func (d *draw) do(s *sample.Sampler) {
	r := d.request
	defer func() {
		if p := recover(); p != nil {
			d.reason, d.err = "", &PanicError{p, debug.Stack()}
		}
	}()
	if d.err = r.maskErr; d.err != nil {
		return
	}
	choice, err := s.Sample(d.logits, r.sampling, r.mask)
	if err == nil && r.Grammar != nil {
		err = r.Grammar.Accept(choice.Token)
	}
	if err != nil {
		d.err = err
		return
	}
	before := r.output
	if d.reason = r.take(choice); d.reason == "" && r.Grammar != nil {
		d.reason, d.err = r.follow()
	}
	d.emitted = r.output - before
	if d.reason == "" && d.err == nil {
		d.err = r.ctx.Err()
	}
}

// worthSharing is how many logits there must be before they are worth waking other threads for: reading that many
// takes about as long as waking one.
const worthSharing = 1 << 15

// crew draws the tokens of a step, on all processors when there is much to draw. A row of 128k logits takes 0.1 to 0.3 ms,
// and the device has nothing to do meanwhile.
type crew struct {
	samplers []sample.Sampler // the engine's own goroutine's, then the helpers'
	draws    []draw
	next     atomic.Int32 // the first of draws that nobody has begun
	start    chan struct{}
	busy     sync.WaitGroup
}

// newCrew starts helpers for up to rows draws at once; close ends them.
func newCrew(rows int) *crew {
	n := min(runtime.GOMAXPROCS(0), rows)
	c := &crew{samplers: make([]sample.Sampler, n), start: make(chan struct{}, n)}
	for i := 1; i < n; i++ {
		go func() {
			for range c.start {
				c.work(&c.samplers[i])
				c.busy.Done()
			}
		}()
	}
	return c
}

// do carries out the draws and returns when all are done.
func (c *crew) do(draws []draw) {
	if len(draws) == 0 {
		return
	}
	c.draws = draws
	c.next.Store(0)
	if len(draws)*len(draws[0].logits) >= worthSharing {
		helpers := min(len(draws), len(c.samplers)) - 1
		c.busy.Add(helpers)
		for range helpers {
			c.start <- struct{}{}
		}
	}
	c.work(&c.samplers[0])
	c.busy.Wait()
}

func (c *crew) work(s *sample.Sampler) {
	for {
		i := int(c.next.Add(1)) - 1
		if i >= len(c.draws) {
			return
		}
		c.draws[i].do(s)
	}
}

func (c *crew) close() { close(c.start) }
