package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sample"
)

// simRequest is a request and what it has got.
type simRequest struct {
	id       int
	prompt   []int32
	limit    int // tokens of the answer
	forced   []int32
	got      []int32
	finals   []Final
	refused  error
	wrong    error
	ctx      *simContext
	stopAt   int // its client stops it at that token; 0: never
	panicAt  int // its client panics at that token; 0: never
	panicEnd bool
}

// simContext is done when its client leaves, at once.
type simContext struct {
	context.Context
	done    chan struct{}
	watches []func()
}

func (c *simContext) Done() <-chan struct{} { return c.done }

func (c *simContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// AfterFunc is what context.AfterFunc calls.
func (c *simContext) AfterFunc(f func()) (stop func() bool) {
	c.watches = append(c.watches, f)
	i := len(c.watches) - 1
	return func() bool { c.watches[i] = func() {}; return true }
}

func (c *simContext) leave() {
	if c.Err() == nil {
		close(c.done)
		for _, f := range c.watches {
			f()
		}
	}
}

// submit sends a request, some with siblings.
func (s *simulation) submit() {
	rng := s.rng
	room := room(s.runner.lim)
	beginning := s.prompts[rng.IntN(len(s.prompts))]
	prompt := append(slices.Clone(beginning[:rng.IntN(min(room, len(beginning)))]), s.tokens(rng.IntN(8))...)
	prompt = prompt[:min(len(prompt), room-1)]
	if len(prompt) == 0 {
		prompt = s.tokens(1)
	}
	siblings := 0
	if rng.IntN(5) == 0 {
		siblings = rng.IntN(4)
	}
	ctx := &simContext{Context: context.Background(), done: make(chan struct{})}
	var sent []*simRequest
	var all []Request
	priority, salt := rng.IntN(3), uint64(rng.IntN(2)*rng.IntN(2))
	for range 1 + siblings {
		r := &simRequest{id: len(s.requests), prompt: prompt, limit: 1 + rng.IntN(30), ctx: ctx}
		q := s.request(r)
		q.Priority, q.Salt = priority, salt
		s.requests, sent, all = append(s.requests, r), append(sent, r), append(all, q)
	}
	err := s.engine.Submit(ctx, all[0], all[1:]...)
	for _, r := range sent {
		r.refused = err
	}
	s.log("submit %d to %d: prompt of %d tokens, %v", sent[0].id, sent[len(sent)-1].id, len(prompt), err)
}

// request is what the engine gets of r.
func (s *simulation) request(r *simRequest) Request {
	rng := s.rng
	p := sample.Default()
	p.Temperature = 0
	q := Request{Prompt: r.prompt, Params: p, MaxTokens: r.limit, Ends: []int32{simEnd}}
	switch rng.IntN(12) {
	case 0:
		r.stopAt = 1 + rng.IntN(r.limit)
	case 1:
		r.panicAt = 1 + rng.IntN(r.limit)
	case 2:
		r.panicEnd = true
	case 3, 4: // an answer that is known, with steps of several tokens, as a grammar makes them
		r.limit = min(r.limit, room(s.runner.lim)-len(r.prompt))
		r.forced, q.MaxTokens = s.tokens(r.limit), r.limit
		q.Constrained = rng.IntN(2) == 0
		for left := r.forced; len(left) > 0; {
			n := 1
			if q.Constrained {
				n = min(rng.IntN(4)+1, len(left))
			}
			q.Forced = append(q.Forced, StepOutput{Tokens: left[:n]})
			left = left[n:]
		}
		q.Forced[len(q.Forced)-1].Reason = sample.ReasonLength
	}
	q.Emit = func(c sample.Choice) bool { return s.emit(r, c.Token) }
	q.Done = func(f Final) {
		r.finals = append(r.finals, f)
		if r.panicEnd {
			panic("injected panic at the end")
		}
	}
	return q
}

// emit checks a token against the one that the model says alone.
func (s *simulation) emit(r *simRequest, token int32) (stop bool) {
	want := int32(-1)
	if r.forced != nil {
		if len(r.got) < len(r.forced) {
			want = r.forced[len(r.got)]
		}
	} else {
		want = s.runner.after(append(slices.Clone(r.prompt), r.got...))
	}
	switch {
	case len(r.finals) > 0:
		r.wrong = errors.New("it got a token after its end")
	case token != want && r.wrong == nil:
		r.wrong = fmt.Errorf("token %d of its answer is %d; alone it is %d", len(r.got), token, want)
	}
	r.got = append(r.got, token)
	if len(r.got) == r.panicAt {
		panic("injected panic of a client")
	}
	return len(r.got) == r.stopAt
}

// simDrafter knows what the model would say, and is right about some of it, in chains and trees.
type simDrafter struct {
	s     *simulation
	rng   *rand.Rand
	fails bool
}

func (d *simDrafter) Name() string             { return "simulated" }
func (d *simDrafter) Seconds(int, int) float64 { return 0 }
func (d *simDrafter) Forget(int64, []int32)    {}
func (d *simDrafter) Close() error             { return nil }
func (d *simDrafter) Concurrent() bool         { return true }

func (d *simDrafter) Propose(seqs []draft.Sequence) error {
	switch {
	case d.fails && d.rng.IntN(50) == 0:
		return errSim
	case d.fails && d.rng.IntN(50) == 0:
		panic("injected panic")
	}
	for i := range seqs {
		q := &seqs[i]
		q.Draft = draft.Draft{}
		tree := d.rng.IntN(3) == 0
		for n := range d.rng.IntN(q.Max + 2) {
			parent := n - 1
			if tree {
				parent = d.rng.IntN(n+1) - 1
			}
			id := int32(1 + d.rng.IntN(simVocab-1))
			if d.rng.IntN(4) > 0 {
				id = d.s.runner.after(q.Draft.Path(slices.Clone(q.Tokens), parent))
			}
			q.Draft.Tokens, q.Draft.Parents = append(q.Draft.Tokens, id), append(q.Draft.Parents, parent)
		}
	}
	return nil
}

// checkEnd holds a request to how it may end.
func (s *simulation) checkEnd(r *simRequest) error {
	if r.refused != nil {
		var full *FullError
		if len(r.finals)+len(r.got) > 0 {
			return errors.New("it was refused and got an answer")
		}
		if !errors.As(r.refused, &full) && !errors.Is(r.refused, ErrClosed) && !errors.Is(r.refused, errSim) {
			return fmt.Errorf("it was refused: %w", r.refused)
		}
		return nil
	}
	if len(r.finals) != 1 {
		return fmt.Errorf("it has ended %d times", len(r.finals))
	}
	f := r.finals[0]
	if f.Output != len(r.got) {
		return fmt.Errorf("its end says %d tokens", f.Output)
	}
	var panicked *PanicError
	switch {
	case f.Err == nil && f.Reason == sample.ReasonLength:
		if room := room(s.runner.lim) - len(r.prompt); len(r.got) != min(r.limit, room) {
			return fmt.Errorf("it ended by length; %d tokens fit", room)
		}
	case f.Err == nil && f.Reason == sample.ReasonStop:
		if len(r.got) != r.stopAt && s.runner.after(append(slices.Clone(r.prompt), r.got...)) != simEnd {
			return errors.New("it ended where the model goes on")
		}
	case errors.Is(f.Err, context.Canceled) && r.ctx.Err() != nil, errors.Is(f.Err, ErrClosed):
	case errors.As(f.Err, &panicked) && (r.panicAt > 0 && len(r.got) == r.panicAt || s.runner.faults.panics > 0):
	case s.faulty && (errors.Is(f.Err, errSim) || errors.Is(f.Err, backend.ErrLost)), errors.Is(f.Err, errSim) && !s.faulty:
	default:
		return fmt.Errorf("it ended with reason %q and %w", f.Reason, f.Err)
	}
	return nil
}
