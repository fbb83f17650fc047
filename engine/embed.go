package engine

import (
	"runtime/debug"

	"github.com/ridge-llm/ridge/engine/sample"
)

// A request with Hidden set ends when its prompt is computed: it gets hidden states, of the last token alone or, from a
// program that keeps those of all (compile.Program.HiddenOfAll), of every token in order. After a preemption rows come
// again, from position 0.

// onlyHidden reports whether no request of the step needs logits.
func (f *InFlight) onlyHidden() bool {
	for i := range f.requests {
		if f.requests[i].request.Hidden == nil {
			return false
		}
	}
	return true
}

// readsHidden reports whether hidden states of the step are to be read, which the next one overwrites.
func (e *Engine) readsHidden(f *InFlight) bool {
	for i := range f.requests {
		if a := &f.requests[i]; a.request.Hidden != nil && !a.request.ended && (a.rows > 0 || e.prog.HiddenOfAll()) {
			return true
		}
	}
	return false
}

// checkHidden refuses a request for hidden states that the program does not have.
func (e *Engine) checkHidden(r *Request) error {
	if r.Hidden != nil && e.prog.HiddenWidth() == 0 {
		return invalid("the model keeps no hidden states, so it makes no embeddings")
	}
	return nil
}

// embed hands the step's hidden states to the requests for them.
func (e *Engine) embed(f *InFlight) {
	for i := range f.requests {
		a := &f.requests[i]
		if a.request.Hidden == nil || a.request.ended {
			continue
		}
		if reason, err := e.giveHidden(a, int(f.batch.QStart[i])); reason != "" || err != nil {
			e.end(a.request, reason, err)
		}
	}
}

// giveHidden hands one request its rows of the step, the first of which is first. It returns why the request ends; ""
// when there is more to compute.
func (e *Engine) giveHidden(a *advance, first int) (sample.Reason, error) {
	r, from, n, row, end := a.request, a.from, a.tokens, first, a.rows > 0
	if !e.prog.HiddenOfAll() {
		if !end {
			return "", nil
		}
		from, n, row = a.from+a.tokens-1, 1, a.row
	}
	if need := n * e.prog.HiddenWidth(); cap(e.hidden) < need {
		e.hidden = make([]float32, need)
	}
	rows := e.hidden[:n*e.prog.HiddenWidth()]
	if err := e.prog.Hidden(rows, row, n); err != nil {
		return "", err
	}
	if err := r.takeHidden(from, rows); err != nil || !end {
		return "", err
	}
	return sample.ReasonStop, nil
}

// takeHidden hands rows over. A panic of the owner's ends that request alone.
func (r *request) takeHidden(from int, rows []float32) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	r.Hidden(from, rows)
	return nil
}
