// Package engine turns a program into a service: many requests at once, each a prompt and what follows it. It works
// in steps. In every step each chosen request moves some tokens forward; there are no phases: reading a prompt in
// chunks, going on from a cached prefix, decoding and starting over after preemption are all "some tokens forward".
//
//	Step:  admit ─► choose ─► batch ─► Program.Run ─► sample ─► emit
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/plan"
)

// Engine runs requests on one program. Submit may be called from any goroutine; everything else happens in the
// engine's own, which owns the device.
type Engine struct {
	prog    *plan.Program
	pool    *kv.Pool
	sampler sample.Sampler
	batch   backend.Batch
	logits  []float32
	copies  []kv.Copy
	chosen  []share

	waiting []*request // not yet holding pages, first come first
	running []*request

	mu     sync.Mutex
	inbox  []*request
	wake   chan struct{} // capacity 1: something came to the inbox, or the engine is to close
	closed bool
	failed error
	done   chan struct{}
}

// New starts an engine on a program, which the engine owns from then on.
func New(prog *plan.Program) (*Engine, error) {
	pool, err := kv.New(prog.Limits.Pages, prog.Limits.PageSize, kv.Radix)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		prog: prog, pool: pool, logits: make([]float32, prog.Vocab()),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go e.serve()
	return e, nil
}

// ErrClosed is what a request gets that was submitted to, or unfinished in, an engine that is closing.
var ErrClosed = errors.New("engine: closed")

// Submit hands a request over. It refuses what can never run, with the numbers. Emit is called for every token and
// Done once, both from the engine's goroutine: they must not block. Once ctx is cancelled the request ends within one
// step.
func (e *Engine) Submit(ctx context.Context, r Request) error {
	lim := e.prog.Limits
	room := min(lim.SeqPages, lim.Pages) * lim.PageSize
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
	q := &request{Request: r, ctx: ctx, state: state, room: room}
	q.tokens = append(make([]int32, 0, len(r.Prompt)+min(r.MaxTokens, 256)), r.Prompt...)
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
		if len(e.waiting)+len(e.running) == 0 {
			<-e.wake
		}
		if !e.admit() {
			e.fail(ErrClosed)
			return
		}
		e.dropCancelled()
		if err := e.step(); err != nil {
			e.mu.Lock()
			e.failed = fmt.Errorf("engine: a step failed and the engine has stopped: %w", err)
			e.mu.Unlock()
			e.fail(e.failed)
			return
		}
	}
}

// admit moves what was submitted to the waiting requests; false when the engine is to close.
func (e *Engine) admit() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = append(e.waiting, e.inbox...)
	clear(e.inbox)
	e.inbox = e.inbox[:0]
	return !e.closed
}

// fail ends every request with an error.
func (e *Engine) fail(err error) {
	e.admit()
	for _, list := range [][]*request{e.running, e.waiting} {
		for _, r := range list {
			r.finish(e, "", err)
		}
	}
	e.running, e.waiting = nil, nil
}

// dropCancelled ends the requests whose caller has gone.
func (e *Engine) dropCancelled() {
	keep := func(list []*request) []*request {
		kept := list[:0]
		for _, r := range list {
			if err := r.ctx.Err(); err != nil {
				r.finish(e, "", err)
				continue
			}
			kept = append(kept, r)
		}
		clear(list[len(kept):])
		return kept
	}
	e.running, e.waiting = keep(e.running), keep(e.waiting)
}
