package engine

import (
	"runtime/debug"

	"github.com/ridge-llm/ridge/compile"
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

// checkHidden refuses a request for hidden states where the program keeps none: their width is 0.
func checkHidden(r *Request, width int) error {
	if r.Hidden != nil && width == 0 {
		return invalid("the model keeps no hidden states, so it makes no embeddings")
	}
	return nil
}

// hiddenStates reads those of steps.
type hiddenStates struct {
	prog compile.Runner
	rows []float32 // of one request, used again
}

// due reports whether hidden states of the step are to be read, which the next one overwrites.
func (h *hiddenStates) due(f *InFlight) bool {
	for i := range f.requests {
		if a := &f.requests[i]; a.request.Hidden != nil && !a.request.ended && (a.rows > 0 || h.prog.HiddenOfAll()) {
			return true
		}
	}
	return false
}

// give hands one request its rows of the step, the first of which is first. It returns why the request ends; ""
// when there is more to compute.
func (h *hiddenStates) give(a *advance, first int) (sample.Reason, error) {
	r, from, n, row, end := a.request, a.from, a.tokens, first, a.rows > 0
	if !h.prog.HiddenOfAll() {
		if !end {
			return "", nil
		}
		from, n, row = a.from+a.tokens-1, 1, a.row
	}
	if need := n * h.prog.HiddenWidth(); cap(h.rows) < need {
		h.rows = make([]float32, need)
	}
	rows := h.rows[:n*h.prog.HiddenWidth()]
	if err := h.prog.Hidden(rows, row, n); err != nil {
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
