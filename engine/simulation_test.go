package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
)

// The simulation runs the engine, its scheduler and its caches in virtual time on one goroutine, with faults drawn from a seed, and
// holds them to what they promise after every step:
//
//	go test ./engine -run Simulation -seed 1234            one seed, the one that failed, in detail with -v
//	go test ./engine -run Simulation -seeds 100000         as many, from 0 on
//	make simulate                                          for hours
var (
	simSeed  = flag.Int64("seed", -1, "the only seed to simulate")
	simSeeds = flag.Int("seeds", 2000, "how many seeds to simulate")
	simFirst = flag.Int("first-seed", 0, "the first of them")
	simFor   = flag.Duration("simulate-for", 0, "simulate seeds for so long, in place of a number of them")
)

// TestSimulation: whatever happens, every request is answered once, with the tokens that it gets alone or an error that a fault
// explains, and everything is given back.
func TestSimulation(t *testing.T) {
	if *simSeed >= 0 {
		s := newSimulation(uint64(*simSeed))
		if testing.Verbose() {
			s.log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
		}
		if err := s.run(); err != nil {
			t.Fatalf("seed %d: %v", *simSeed, err)
		}
		return
	}
	n := *simSeeds
	if testing.Short() && *simFor == 0 {
		n = min(n, 300)
	}
	began := time.Now()
	var next, requests, steps atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !t.Failed() {
				i := next.Add(1) - 1
				if *simFor > 0 && time.Since(began) > *simFor || *simFor == 0 && i >= int64(n) {
					return
				}
				s := newSimulation(uint64(*simFirst) + uint64(i))
				if err := s.run(); err != nil {
					t.Errorf("%v\nagain: go test ./engine -run Simulation -v -seed %d", err, int64(*simFirst)+i)
				}
				requests.Add(int64(len(s.requests)))
				steps.Add(int64(s.steps))
			}
		})
	}
	all.Wait()
	t.Logf("%d seeds, %d requests, %d steps", min(next.Load(), int64(n)), requests.Load(), steps.Load())
}

// simulation is one seed's run.
type simulation struct {
	rng      *rand.Rand
	clock    time.Time
	runner   *simRunner
	options  Options
	engine   *Engine
	current  *InFlight
	requests []*simRequest
	prompts  [][]int32 // beginnings that prompts share
	faulty   bool      // the device may fail
	steps    int
	stopped  bool // the engine has given up, or was closed
	changed  bool // Options.Intact says so
	log      func(format string, args ...any)
}

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

func newSimulation(seed uint64) *simulation {
	s := &simulation{rng: rand.New(rand.NewPCG(seed, 15)), clock: time.Unix(1e9, 0), log: func(string, ...any) {}}
	rng := s.rng
	lim := backend.Limits{PageSize: []int{2, 4, 16}[rng.IntN(3)], Seqs: 1 + rng.IntN(6)}
	lim.Tokens = lim.Seqs + lim.PageSize + rng.IntN(40)
	lim.Logits = lim.Seqs
	lim.SeqPages = 2 + rng.IntN(max(2, 96/lim.PageSize))
	lim.Pages = lim.SeqPages + rng.IntN(3*lim.SeqPages)
	if rng.IntN(2) == 0 {
		lim.SwapPages = rng.IntN(2*lim.SeqPages) + 1
	}
	if rng.IntN(3) == 0 {
		lim.Groups = []backend.GroupLimits{{Pages: lim.Pages, SwapPages: lim.SwapPages}, {Window: 1 + rng.IntN(3*lim.PageSize), Pages: lim.Pages, SwapPages: lim.SwapPages}}
	}
	s.options = Options{
		Policy: []sched.Policy{sched.FCFS, sched.ByPriority, sched.LongestPrefix}[rng.IntN(3)],
		Index:  []string{"radix", "hash", "none"}[rng.IntN(3)],
		Clock:  func() time.Time { return s.clock },
		Intact: func() error {
			if s.changed {
				return errSim
			}
			return nil
		},
	}
	if rng.IntN(4) == 0 {
		s.options.MaxWaiting = 1 + rng.IntN(6)
	}
	if rng.IntN(4) == 0 {
		s.options.TargetITL = time.Duration(1+rng.IntN(20)) * time.Millisecond
	}
	if rng.IntN(4) == 0 {
		s.options.WaitingServedRatio = 2 * rng.Float64()
	}
	if lim.SwapPages > 0 && rng.IntN(2) == 0 {
		s.options.SwapPage = time.Duration(rng.IntN(3000)) * time.Microsecond
	}
	drafts := rand.New(rand.NewPCG(seed, 19)) // of its own: other simulations stay as they are
	if drafts.IntN(3) == 0 {
		lim.Logits = lim.Seqs * (2 + drafts.IntN(6))
		s.options.Speculation = Speculation{Tokens: 1 + drafts.IntN(8), Always: drafts.IntN(2) == 0, Drafter: &simDrafter{s: s, rng: drafts, fails: drafts.IntN(4) == 0}}
	}
	s.runner = newSimRunner(lim, rng.IntN(2) == 0, s.drawFaults(), rng, &s.clock)
	for range 1 + rng.IntN(4) {
		s.prompts = append(s.prompts, s.tokens(lim.SeqPages*lim.PageSize))
	}
	return s
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

// drawFaults chooses which faults there are, and how often.
func (s *simulation) drawFaults() (f simFaults) {
	if s.rng.IntN(3) > 0 { // one in three has no faults of the device
		for _, rate := range []*float64{&f.run, &f.panics, &f.results, &f.copies, &f.swap} {
			if s.rng.IntN(3) == 0 {
				*rate, s.faulty = 0.06*s.rng.Float64(), true
			}
		}
		if s.rng.IntN(10) == 0 {
			f.lost, s.faulty = 0.01, true
		}
	}
	if s.rng.IntN(3) == 0 {
		f.slow, f.jump = 0.02, 0.02
	}
	return f
}

func (s *simulation) tokens(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(1 + s.rng.IntN(simVocab-1))
	}
	return all
}

// run simulates until everything has ended. It returns what broke a promise.
func (s *simulation) run() error {
	want := 3 + s.rng.IntN(40)
	rate := 0.01 + s.rng.Float64()
	for idle := 0; len(s.requests) < want || s.unfinished() > 0; idle++ {
		if s.engine == nil || s.stopped {
			if err := s.start(); err != nil {
				return err
			}
		}
		for len(s.requests) < want && s.rng.Float64() < rate {
			s.submit()
		}
		s.disturb()
		before := s.steps
		if err := s.iterate(); err != nil {
			return fmt.Errorf("after %d steps: %w", s.steps, err)
		}
		if s.steps > before || len(s.requests) < want {
			idle = 0
		}
		if s.steps > 20000 || idle > 10000 {
			return fmt.Errorf("%d of %d requests have not ended after %d steps", s.unfinished(), len(s.requests), s.steps)
		}
	}
	return s.finish()
}

// start makes an engine: the first, or after one that has given up another, on a device with nothing in its memory.
func (s *simulation) start() (err error) {
	for _, m := range s.runner.memory {
		s.runner.overwrite(m)
	}
	s.stopped, s.changed, s.current, s.runner.inFlight = false, false, nil, nil
	if s.engine, err = newEngine(s.runner, s.options); err != nil {
		return fmt.Errorf("the engine does not start on %+v: %w", s.runner.lim, err)
	}
	return nil
}

func (s *simulation) unfinished() (n int) {
	for _, r := range s.requests {
		if r.refused == nil && len(r.finals) == 0 {
			n++
		}
	}
	return n
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

// disturb does what may happen between two steps.
func (s *simulation) disturb() {
	rng := s.rng
	if rng.IntN(30) == 0 && len(s.requests) > 0 {
		r := s.requests[rng.IntN(len(s.requests))]
		s.log("the client of request %d leaves", r.id)
		r.ctx.leave()
	}
	in := &s.engine.inbox
	switch rng.IntN(2000) {
	case 0:
		s.log("the model's file is changed")
		s.changed = true
	case 1:
		s.log("the engine is closed")
		in.mu.Lock()
		in.closed = true
		in.mu.Unlock()
	}
}

// iterate is an iteration of the engine, and the invariants after it.
func (s *simulation) iterate() error {
	e := s.engine
	if len(e.queue.byID) == 0 && s.current == nil {
		select {
		case <-e.inbox.wake:
			e.meter.idle()
		default:
			return nil // it would sleep
		}
	}
	s.steps++
	more := false
	if s.current, more = e.iterate(s.current); !more {
		s.log("step %d: the engine has ended: %v", s.steps, e.inbox.failed)
		s.stopped = true
		e.sampler.drain()
		if len(e.queue.byID) > 0 {
			return fmt.Errorf("the engine has ended and %d requests have not", len(e.queue.byID))
		}
	}
	return s.check()
}

// check holds the engine to its accounts.
func (s *simulation) check() error {
	e := s.engine
	var here, away []*kv.Seq
	for _, r := range e.queue.byID {
		if r.away {
			away = append(away, &r.seq)
		} else {
			here = append(here, &r.seq)
		}
		if r.ended {
			return fmt.Errorf("request %d has ended and is still queued", r.sched.ID)
		}
	}
	if err := e.pages.Check(here...); err != nil {
		return err
	}
	if e.pages.host != nil {
		if err := e.pages.host.Check(away...); err != nil {
			return fmt.Errorf("host memory: %w", err)
		}
	}
	if len(away) != e.pages.away {
		return fmt.Errorf("%d requests are swapped out; the account says %d", len(away), e.pages.away)
	}
	for _, r := range s.requests {
		if len(r.finals) > 1 {
			return fmt.Errorf("request %d has ended %d times", r.id, len(r.finals))
		}
		if r.wrong != nil {
			return fmt.Errorf("request %d: %w", r.id, r.wrong)
		}
	}
	if n := len(e.queue.state.Running()) + e.queue.state.Waiting(); n != len(e.queue.byID) {
		return fmt.Errorf("the scheduler has %d requests and the engine %d", n, len(e.queue.byID))
	}
	return nil
}

// finish checks the ends of all requests, and that all is given back.
func (s *simulation) finish() error {
	e := s.engine
	for range 3 { // steps in flight
		if e.inbox.signal(); !s.stopped {
			if err := s.iterate(); err != nil {
				return err
			}
		}
	}
	for _, r := range s.requests {
		if err := s.checkEnd(r); err != nil {
			return fmt.Errorf("request %d (prompt of %d tokens, %d of %d tokens got): %w", r.id, len(r.prompt), len(r.got), r.limit, err)
		}
	}
	for group, available := range e.pages.Available() {
		if total := e.pages.Total()[group]; available != total {
			return fmt.Errorf("at the end %d of %d pages of group %d are available", available, total, group)
		}
	}
	if e.pages.host != nil && e.pages.host.Available()[0] != e.pages.host.Total()[0] {
		return errors.New("at the end pages of host memory are held")
	}
	if n := len(s.runner.inFlight); n > 0 {
		return fmt.Errorf("at the end %d steps are in flight", n)
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
