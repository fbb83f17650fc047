package engine

import (
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// A preempted request either forgets its pages and is computed again, or has them kept in host memory until it goes on:
// swapped out. Host memory has an account of pages of its own, without an index: nobody shares what is there.

// swapping is the host memory of an engine. Without any, host is nil and nothing is swapped.
type swapping struct {
	host     *kv.Manager
	away     int       // requests that are swapped out
	copies   []kv.Copy // of one sequence or, out, of all that a step preempts
	from, to []int32   // those of a cache group, as the program wants them
}

func (s *swapping) init(groups []graph.CacheGroup, lim backend.Limits) (err error) {
	if lim.SwapPages == 0 {
		return nil
	}
	o := kv.Options{PageSize: lim.PageSize, Index: kv.None}
	for i, g := range groups {
		o.Groups = append(o.Groups, kv.Group{Pages: lim.GroupSwapPages(i), Window: g.Window})
	}
	s.host, err = kv.New(o)
	return err
}

// HostAvailable implements sched.Cache.
func (c cache) HostAvailable() int {
	if c.swap.host == nil {
		return 0
	}
	return c.swap.host.Available()[c.main]
}

// SwapLag is what a move of a request's pages takes beside the copying, whose copies are started one by one.
const SwapLag = 50 * time.Microsecond

// swapPrice is what it costs to compute a request's cache again and to move it to host memory and back, µs. Pages that
// others hold too will be found when it goes on, so only its own count for computing; moved are all.
func (e *Engine) swapPrice(q *sched.Request) (recompute, swap float64) {
	seq := &e.byID[q.ID].seq
	pages := e.pages.PagesFor(q.Computed)
	swap = 2e6 * (SwapLag + time.Duration(pages)*e.swapPage).Seconds()
	own := min(e.pages.Returns(seq)[e.main]*e.pages.PageSize(), q.Computed)
	if own == 0 {
		return 0, swap
	}
	// In steps of its own, of which the one in the middle is the average: what attention takes grows evenly.
	steps := (own + e.stepTokens - 1) / e.stepTokens
	n := (own + steps - 1) / steps
	before := q.Computed - own + (own-n)/2
	shape := sched.Shape{Tokens: n, Rows: before + n, Pairs: n*before + n*(n+1)/2}
	return float64(steps) * e.price(shape), swap
}

// preempt takes the pages of the requests that the schedule chose for it, those to be swapped out after copying them.
func (e *Engine) preempt() error {
	s := &e.swap
	s.copies = s.copies[:0]
	for _, p := range e.schedule.Preempt {
		r := e.byID[p.Request.ID]
		r.account.preempted = true
		e.stats.Preemptions++
		if p.Swap {
			s.copies, r.away = e.pages.Move(&r.seq, s.host, s.copies)
		}
		if r.away {
			s.away++
			e.stats.Swaps++
			continue
		}
		e.pages.Free(&r.seq)
		e.state.Forget(p.Request)
	}
	if len(s.copies) == 0 {
		return nil
	}
	e.stats.SwappedOut += int64(len(s.copies))
	return s.each(e.prog.SwapOut)
}

// swapIn brings an admitted request's pages back from host memory. If there are too few pages after all, it has to be
// computed again.
func (e *Engine) swapIn(r *request) error {
	s := &e.swap
	r.away, r.sched.Swapped = false, false
	s.away--
	var ok bool
	if s.copies, ok = s.host.Move(&r.seq, e.pages, s.copies[:0]); !ok {
		s.host.Free(&r.seq)
		return nil
	}
	// Pages that it gets may have been copied from in this step's schedule.
	if err := e.copyPages(); err != nil {
		return err
	}
	e.stats.SwappedIn += int64(len(s.copies))
	return s.each(e.prog.SwapIn)
}

// each has the copies made, those of a cache group at a time.
func (s *swapping) each(move func(group int, from, to []int32) error) error {
	for group := range s.host.Groups() {
		s.from, s.to = s.from[:0], s.to[:0]
		for _, c := range s.copies {
			if c.Group == group {
				s.from, s.to = append(s.from, c.From), append(s.to, c.To)
			}
		}
		if len(s.from) == 0 {
			continue
		}
		if err := move(group, s.from, s.to); err != nil {
			return err
		}
	}
	return nil
}

// release gives a request's pages back, wherever they are.
func (e *Engine) release(r *request) {
	if r.away {
		r.away = false
		e.swap.away--
		e.swap.host.Free(&r.seq)
		return
	}
	e.pages.Free(&r.seq)
}

// forgetSwapped has the requests that are swapped out be computed again: their pages may not have been copied.
func (e *Engine) forgetSwapped() {
	for _, r := range e.byID {
		if r.away {
			e.release(r)
			e.state.Forget(&r.sched)
		}
	}
}

// count adds what is in host memory to the figures.
func (s *swapping) count(to *Stats, main int) {
	if s.host != nil {
		to.Swapped, to.HostPages, to.HostUsed = s.away, s.host.Total()[main], s.host.Total()[main]-s.host.Available()[main]
	}
}
