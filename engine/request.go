package engine

import (
	"context"
	"slices"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
)

// Request is a prompt with what to do about it.
type Request struct {
	Prompt    []int32
	Params    sample.Params
	MaxTokens int     // of the answer
	Ends      []int32 // tokens that end the answer; they are not emitted
	// Emit gets each token of the answer; returning true ends it there.
	Emit func(sample.Choice) (stop bool)
	// Done gets the end.
	Done func(Final)
}

// Final says how a request ended.
type Final struct {
	Reason sample.Reason // stop or length; empty when Err is set
	Err    error
	Cached int // tokens of the prompt that were found in the cache
	Output int // tokens emitted
}

// request is a Request under way.
type request struct {
	Request
	ctx      context.Context
	state    *sample.State
	seq      kv.Seq
	tokens   []int32 // prompt and answer so far
	computed int     // of them in the cache
	room     int     // the longest that tokens may become
	cached   int
	output   int
}

// take adds a sampled token to the answer and reports whether the request is finished.
func (r *request) take(e *Engine, c sample.Choice) bool {
	r.state.Observe(c.Token)
	if slices.Contains(r.Ends, c.Token) {
		r.finish(e, sample.ReasonStop, nil)
		return true
	}
	r.tokens = append(r.tokens, c.Token)
	r.output++
	switch stop := r.Emit(c); {
	case stop:
		r.finish(e, sample.ReasonStop, nil)
	case r.output == r.MaxTokens || len(r.tokens) == r.room:
		r.finish(e, sample.ReasonLength, nil)
	default:
		return false
	}
	return true
}

// finish gives the request's pages back and tells its owner.
func (r *request) finish(e *Engine, reason sample.Reason, err error) {
	e.pool.Free(&r.seq)
	r.Done(Final{Reason: reason, Err: err, Cached: r.cached, Output: r.output})
}
