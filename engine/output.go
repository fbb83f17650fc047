package engine

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ridge-llm/ridge/engine/sample"
)

// take samples the output's tokens and hands them to the request's owner, in order. A panic on the way ends that request alone.
func (o *output) take(s sampler, f *InFlight, thread int) {
	r := o.request
	defer func() {
		if p := recover(); p != nil {
			o.reason, o.err = "", &PanicError{p, debug.Stack()}
		}
		if r.denoising == nil {
			o.emitted = len(r.tokens) - o.position
		}
	}()
	if r.denoising != nil {
		if o.denoise(s, f, thread); o.reason == "" && o.err == nil {
			o.err = r.ctx.Err()
		}
		return
	}
	if r.Forced != nil {
		o.takeForced()
		return
	}
	if o.err = r.maskErr; o.err != nil {
		return
	}
	if o.rows > 1 {
		o.verify(s, f, thread)
	} else {
		for i := 0; i < o.sampled && o.reason == "" && o.err == nil; i++ {
			o.sample(s, f, i, thread)
		}
		if o.reason == "" && o.err == nil && o.sampled > 0 && r.Grammar != nil {
			o.jumpForward()
		}
	}
	if o.reason == "" && o.err == nil {
		o.err = r.ctx.Err()
	}
}

// sample adds the token of one of the output's rows to the answer.
func (o *output) sample(s sampler, f *InFlight, row, thread int) {
	r := o.request
	choice, err := s.choice(f, o, row, thread)
	if err == nil && r.Grammar != nil {
		err = r.Grammar.Accept(choice.Token)
	}
	if err != nil {
		o.err = err
		return
	}
	o.reason, o.last = r.take(choice), row
}

// jumpForward is the request's. The token that comes last is one that was not sampled, if there is any.
func (o *output) jumpForward() {
	n := len(o.request.tokens)
	if o.reason, o.err = o.request.jumpForward(); len(o.request.tokens) > n {
		o.last = -1
	}
}

// verify samples the rows of a draft one after the other, as long as what comes is what was drafted. Tokens that a grammar forces in between are
// those of the draft too, or its end.
func (o *output) verify(s sampler, f *InFlight, thread int) {
	r := o.request
	for i := range min(r.draft.Window, o.sampled) { // before sampling writes over logits
		o.watched, o.after[i] = true, s.likely(f, o, o.sampled-r.draft.Window+i)
	}
	for row, ok := 0, o.sampled > 0; ok && o.reason == "" && o.err == nil; {
		from := len(r.tokens)
		if o.sample(s, f, row, thread); o.reason == "" && o.err == nil && r.Grammar != nil {
			o.jumpForward()
		}
		if row, ok = o.follow(row, r.tokens[from:]); len(r.tokens) == from {
			return // an end that is not part of the answer
		}
	}
}

// follow notes which of the tokens that came after a row are those of the draft, from the first on. It returns the row of the last of them, and
// whether all were.
func (o *output) follow(row int, tokens []int32) (int, bool) {
	for _, id := range tokens {
		next, ok := o.next(row, id)
		if !ok {
			return row, false
		}
		o.accepted++
		o.path[next-1] = true
		if row = next; row == o.accepted {
			o.inOrder = row
		}
	}
	return row, true
}

// takeForced emits forced outputs: the next one and, of a draft, those after it as long as they are what was drafted.
func (o *output) takeForced() {
	r := o.request
	for row, ok := 0, true; ok && o.reason == "" && o.err == nil; {
		from := len(r.tokens)
		o.reason, o.err = r.emitForced()
		if row, ok = o.follow(row, r.tokens[from:]); o.rows == 1 || len(r.tokens) == from {
			return
		}
	}
}

// stepOutput is what the output added to its request's answer.
func (o *output) stepOutput() StepOutput {
	s := StepOutput{Tokens: o.request.tokens[o.position:], Reason: o.reason}
	if o.err != nil {
		s.Err = o.err.Error()
	}
	return s
}

// emitForced emits the next of the request's forced outputs in place of sampled tokens.
func (r *request) emitForced() (sample.Reason, error) {
	if len(r.Forced) == 0 {
		return "", errors.New("engine: the forced outputs are at their end and the answer is not")
	}
	s := r.Forced[0]
	r.Forced = r.Forced[1:]
	if n := len(r.tokens) + len(s.Tokens); n > r.sched.Limit || n == r.sched.Limit && s.Reason == "" && s.Err == "" {
		return "", fmt.Errorf("engine: the forced outputs go on where the answer ends, at %d tokens", r.MaxTokens)
	}
	for _, token := range s.Tokens {
		r.tokens = append(r.tokens, token)
		r.output++
		r.Emit(sample.Choice{Token: token})
	}
	if s.Err != "" {
		return "", errors.New(s.Err)
	}
	return s.Reason, nil
}

// forcedAt is token i of the next forced output; 0 if it has fewer.
func (r *request) forcedAt(i int) int32 {
	if len(r.Forced) > 0 && i < len(r.Forced[0].Tokens) {
		return r.Forced[0].Tokens[i]
	}
	return 0
}

// forcedToken is token n of the forced outputs that are left; -1: there are no more.
func (r *request) forcedToken(n int) int32 {
	for _, s := range r.Forced {
		if n < len(s.Tokens) {
			return s.Tokens[n]
		}
		n -= len(s.Tokens)
	}
	return -1
}

// reconcile brings the request up to date with what it got. What a step in flight computes after a token that did not come, or
// samples in place of one that is known by now, is dropped: see void.
func (o *output) reconcile() (asAssumed bool) {
	r := o.request
	if o.emitted == o.assumed {
		r.pending -= o.assumed
		return true
	}
	r.pending = 0
	return false
}
