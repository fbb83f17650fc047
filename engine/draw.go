package engine

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/sample"
)

// draw is the choice of one request's next token.
type draw struct {
	request *request
	logits  []float32 // [vocab], the request's row of the step; nil where the device draws
	lot     int       // which of the device's draws it is; -1: none
	drawn   *sampling.Result
	emitted int // tokens
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
	before := r.output
	defer func() { d.emitted = r.output - before }()
	if r.Forced != nil {
		d.reason, d.err = r.emitForced()
		return
	}
	if d.err = r.maskErr; d.err != nil {
		return
	}
	choice, err := d.choose(s)
	if err == nil && r.Grammar != nil {
		err = r.Grammar.Accept(choice.Token)
	}
	if err != nil {
		d.err = err
		return
	}
	if d.reason = r.take(choice); d.reason == "" && r.Grammar != nil {
		d.reason, d.err = r.follow()
	}
	if d.reason == "" && d.err == nil {
		d.err = r.ctx.Err()
	}
}

// choose is the token: the device's choice or, where it makes none, the sampler's.
func (d *draw) choose(s *sample.Sampler) (sample.Choice, error) {
	if d.drawn != nil {
		return sample.FromResult(d.drawn)
	}
	return s.Sample(d.logits, d.request.sampling, d.request.mask)
}

// worthSharing is how many logits there must be before they are worth waking other threads for.
const worthSharing = 1 << 15

// crew draws the tokens of a step, on several threads when there is much to draw: a row of 128k logits takes 0.05 to
// 0.3 ms, and the device has nothing to do meanwhile. Threads that a device on the processor keeps awake between its steps
// are borrowed: others would not get a core.
type crew struct {
	samplers []sample.Sampler // one for each thread
	draws    []draw
	next     atomic.Int32         // the first of draws that nobody has begun
	work     func(thread int)     // makes draws until there are none left
	lender   backend.ThreadLender // nil: the crew has threads of its own
	start    []chan struct{}      // of each of those, beside the engine's own, thread 0
	busy     sync.WaitGroup
	makeWay  bool // a lent thread lets those run whom its tokens have woken, see Engine.makeWay
}

// newCrew is the crew for a program. close ends its own threads.
func newCrew(prog *compile.Program) *crew {
	c := &crew{}
	threads := 0
	if c.lender, threads = prog.Lender(); c.lender == nil {
		threads = min(runtime.GOMAXPROCS(0), prog.Limits.Logits)
	}
	c.samplers = make([]sample.Sampler, threads)
	c.work = func(thread int) {
		for i := int(c.next.Add(1)) - 1; i < len(c.draws); i = int(c.next.Add(1)) - 1 {
			c.draws[i].do(&c.samplers[thread])
		}
		if thread > 0 && c.makeWay {
			runtime.Gosched()
		}
	}
	if c.lender != nil {
		return c
	}
	for i := 1; i < threads; i++ {
		start := make(chan struct{}, 1)
		c.start = append(c.start, start)
		go func() {
			for range start {
				c.work(i)
				c.busy.Done()
			}
		}()
	}
	return c
}

// do carries out the draws of a step, which may have been a long one, and returns when all are done.
func (c *crew) do(draws []draw, long bool) {
	c.draws, c.makeWay = draws, long && c.lender != nil
	c.next.Store(0)
	switch {
	case len(draws) < 2 || len(draws)*len(draws[0].logits) < worthSharing:
		c.work(0)
	case c.lender != nil:
		c.lender.Lend(c.work)
	default:
		helpers := c.start[:min(len(draws)-1, len(c.start))]
		c.busy.Add(len(helpers))
		for _, start := range helpers {
			start <- struct{}{}
		}
		c.work(0)
		c.busy.Wait()
	}
}

func (c *crew) close() {
	for _, start := range c.start {
		close(start)
	}
}
