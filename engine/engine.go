// Package engine turns a program into a service: many requests at once, each a prompt and what follows it. It works
// in steps. In every step each chosen request moves some tokens forward; there are no phases: reading a prompt in
// chunks, going on from a cached prefix, decoding and starting over after preemption are all "some tokens forward".
//
//	step:  admit ─► plan ─► batch ─► Program.Run ─► sample ─► emit
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/plan"
)

// Engine runs requests on one program. Submit may be called from any goroutine; everything else happens in the
// engine's own, which owns the device.
type Engine struct {
	prog    *plan.Program
	state   *sched.State // which requests wait and run
	pool    *kv.Pool     // whose tokens are in which page
	sampler sample.Sampler
	byID    map[int64]*request
	nextID  int64
	started time.Time

	plan   sched.Plan // of the step under way, and what it needs:
	chosen []*request
	copies []kv.Copy
	batch  backend.Batch
	logits []float32

	mu     sync.Mutex
	inbox  []*request
	wake   chan struct{} // capacity 1: something came to the inbox, or the engine is to close
	closed bool
	failed error
	done   chan struct{}
}

// maxWaiting is how many requests wait at most.
const maxWaiting = 4096

// New starts an engine on a program, which the engine owns from then on.
func New(prog *plan.Program) (*Engine, error) {
	lim := prog.Limits
	pool, err := kv.New(lim.Pages, lim.PageSize, kv.Radix)
	if err != nil {
		return nil, err
	}
	state, err := sched.New(sched.Options{
		Policy: sched.FCFS, Pages: lim.Pages, PageSize: lim.PageSize, MaxContext: room(lim),
		MaxBatchedTokens: lim.Tokens, MaxSeqs: lim.Seqs, MaxWaiting: maxWaiting,
	})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		prog: prog, state: state, pool: pool, byID: map[int64]*request{}, started: time.Now(),
		logits: make([]float32, prog.Vocab()), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go e.serve()
	return e, nil
}

// room is how many tokens one request may come to.
func room(lim backend.Limits) int { return min(lim.SeqPages, lim.Pages) * lim.PageSize }

// ErrClosed is what a request gets that was submitted to, or unfinished in, an engine that is closing.
var ErrClosed = errors.New("engine: closed")

// Submit hands a request over. It refuses what can never run, with the numbers. Emit is called for every token and
// Done once, both from the engine's goroutine: they must not block. Once ctx is cancelled the request ends within one
// step.
func (e *Engine) Submit(ctx context.Context, r Request) error {
	room := room(e.prog.Limits)
	switch {
	case len(r.Prompt) == 0:
		return errors.New("engine: the prompt is empty; it must have at least one token")
	case r.MaxTokens < 1:
		return fmt.Errorf("engine: max_tokens is %d; it must be 1 or more", r.MaxTokens)
	case len(r.Prompt) >= room:
		return fmt.Errorf("engine: the prompt has %d tokens and the context is %d, which must hold at least one token more; shorten the prompt or load the model with a larger context", len(r.Prompt), room)
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= e.prog.Vocab() {
			return fmt.Errorf("engine: token %d of the prompt is %d; the vocabulary has %d", i, id, e.prog.Vocab())
		}
	}
	state, err := sample.NewState(r.Params, e.prog.Vocab(), r.Prompt)
	if err != nil {
		return err
	}
	q := &request{Request: r, ctx: ctx, sampling: state}
	q.tokens = append(make([]int32, 0, len(r.Prompt)+min(r.MaxTokens, 256)), r.Prompt...)
	q.sched.Target = len(r.Prompt)
	q.sched.Limit = min(len(r.Prompt)+r.MaxTokens, room)
	q.sched.Arrived = int64(time.Since(e.started))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed != nil {
		return e.failed
	}
	if e.closed {
		return ErrClosed
	}
	e.inbox = append(e.inbox, q)
	e.signal()
	return nil
}

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close ends all requests with ErrClosed, waits for the engine's goroutine and frees the program.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.signal()
	e.mu.Unlock()
	<-e.done
}

// serve steps while there is work and sleeps while there is none.
func (e *Engine) serve() {
	defer close(e.done)
	defer e.prog.Close()
	for {
		if len(e.byID) == 0 {
			<-e.wake
		}
		if !e.admit() {
			e.endAll(ErrClosed)
			return
		}
		e.dropCancelled()
		if err := e.step(); err != nil {
			err = fmt.Errorf("engine: a step failed and the engine has stopped: %w", err)
			e.mu.Lock()
			e.failed = err
			e.mu.Unlock()
			e.admit()
			e.endAll(err)
			return
		}
	}
}

// admit queues what was submitted; false when the engine is to close.
func (e *Engine) admit() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.inbox {
		r.sched.ID = e.nextID
		e.nextID++
		if err := e.state.Submit(&r.sched); err != nil {
			r.Done(Final{Err: err})
			continue
		}
		e.byID[r.sched.ID] = r
	}
	clear(e.inbox)
	e.inbox = e.inbox[:0]
	return !e.closed
}

// end takes a request out, gives its pages back and tells its owner.
func (e *Engine) end(r *request, reason sample.Reason, err error) {
	e.state.Remove(&r.sched)
	e.pool.Free(&r.seq)
	delete(e.byID, r.sched.ID)
	r.Done(Final{Reason: reason, Err: err, Cached: r.cached, Output: r.output})
}

// endAll ends every request with an error.
func (e *Engine) endAll(err error) {
	for _, r := range e.byID {
		e.end(r, "", err)
	}
}

// dropCancelled ends the requests whose caller has gone.
func (e *Engine) dropCancelled() {
	for _, r := range e.byID {
		if err := r.ctx.Err(); err != nil {
			e.end(r, "", err)
		}
	}
}
