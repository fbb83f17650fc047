package engine

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/kv"
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
	var next, seeds, requests, steps, preempted, swapped, full atomic.Int64
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
				seeds.Add(1)
				requests.Add(int64(len(s.requests)))
				steps.Add(int64(s.steps))
				preempted.Add(int64(s.preempted))
				swapped.Add(s.swapped)
				if s.stages != nil {
					full.Add(int64(s.stages.full))
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d seeds, %d requests, %d steps; %d times a request was preempted, %d times it was swapped out", seeds.Load(), requests.Load(), steps.Load(), preempted.Load(), swapped.Load())
	if n >= 100 && (preempted.Load() < requests.Load()/20 || swapped.Load() == 0) {
		t.Error("hardly any request was preempted: the simulation does not test that")
	}
	if n >= 100 && full.Load() < steps.Load()/20 {
		t.Errorf("%d of %d steps had one in flight for each stage: the simulation does not test that", full.Load(), steps.Load())
	}
}

// simulation is one seed's run.
type simulation struct {
	rng      *rand.Rand
	clock    time.Time
	runner   *simRunner
	prog     compile.Runner // the runner, or
	stages   *simStages     // stages of it; nil: there is one
	options  Options
	engine   *Engine
	current  *InFlight
	requests []*simRequest
	prompts  [][]int32 // beginnings that prompts share
	faulty   bool      // the device may fail
	pressure *pressure

	preempted int   // by the engines so far
	swapped   int64 // likewise
	steps     int
	stopped   bool // the engine has given up, or was closed
	changed   bool // Options.Intact says so
	log       func(format string, args ...any)
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
	switch rng.IntN(8) {
	case 0, 1:
		s.options.TargetITL = time.Duration(1+rng.IntN(20)) * time.Millisecond
	case 2, 3:
		s.options.ITLRatio = 1.1 + 5*rng.Float64()
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
		if drafts.IntN(2) == 0 {
			s.options.Predictor = fickle{drafts}
		}
	}
	s.pressure = newPressure(seed)
	s.runner = newSimRunner(lim, rng.IntN(2) == 0, s.drawFaults(), rng, &s.clock)
	s.prog = s.runner
	if stages := rand.New(rand.NewPCG(seed, 23)); !s.runner.samples && s.options.Speculation.Drafter == nil && stages.IntN(2) == 0 {
		s.stages = &simStages{simRunner: s.runner, stages: 2 + stages.IntN(3)}
		s.prog = s.stages
	}
	for range 1 + rng.IntN(4) {
		s.prompts = append(s.prompts, s.tokens(lim.SeqPages*lim.PageSize))
	}
	return s
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

// count adds what the engine has preempted, at its end.
func (s *simulation) count() {
	s.preempted += int(s.engine.loop.meter.stats.Preemptions)
	s.swapped += s.engine.loop.pages.swaps
}

// start makes an engine: the first, or after one that has given up another, on a device with nothing in its memory.
func (s *simulation) start() (err error) {
	if s.engine != nil {
		s.count()
	}
	for _, m := range s.runner.memory {
		s.runner.overwrite(m)
	}
	s.stopped, s.changed, s.current, s.runner.inFlight = false, false, nil, nil
	if s.stages != nil {
		s.stages.begun = nil
	}
	s.pressure.left, s.pressure.seq = 0, kv.Seq{}
	if s.engine, err = newEngine(s.prog, s.options); err != nil {
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

// disturb does what may happen between two steps.
func (s *simulation) disturb() {
	rng := s.rng
	if rng.IntN(30) == 0 && len(s.requests) > 0 {
		r := s.requests[rng.IntN(len(s.requests))]
		s.log("the client of request %d leaves", r.id)
		r.ctx.leave()
	}
	s.pressure.step(&s.engine.loop)
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
	e := &s.engine.loop
	if len(e.queue.byID) == 0 && s.current == nil {
		select {
		case <-e.inbox.wake:
			e.meter.idle()
		default:
			return nil // it would sleep
		}
	}
	s.steps++
	if f, ok := s.options.Predictor.(fickle); ok {
		e.meter.gap = f.random.Float64()
	}
	more := false
	if s.current, more = e.iterate(s.current); !more {
		s.log("step %d: the engine has ended: %v", s.steps, e.inbox.failed)
		s.stopped = true
		e.pool.sampler.drain()
		if len(e.queue.byID) > 0 {
			return fmt.Errorf("the engine has ended and %d requests have not", len(e.queue.byID))
		}
	}
	return s.check()
}

// check holds the engine to its accounts.
func (s *simulation) check() error {
	e := &s.engine.loop
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
	if s.pressure.left > 0 {
		here = append(here, &s.pressure.seq)
	}
	if err := e.pages.Check(here...); err != nil {
		return err
	}
	if e.pages.hosts != nil {
		if err := e.pages.hosts[0].Check(away...); err != nil {
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
	e := &s.engine.loop
	s.count()
	s.pressure.release(e)
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
	if e.pages.hosts != nil && e.pages.hosts[0].Available()[0] != e.pages.hosts[0].Total()[0] {
		return errors.New("at the end pages of host memory are held")
	}
	if n := len(s.runner.inFlight); n > 0 {
		return fmt.Errorf("at the end %d steps are in flight", n)
	}
	return nil
}
