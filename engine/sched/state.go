package sched

import (
	"fmt"
	"slices"
)

// window is how many of the oldest waiting requests the longest-prefix policy compares.
const window = 64

// State is the queues. It is used by one goroutine.
type State struct {
	options Options
	waiting queue
	running []*Request // in order of admission
	order   int64      // of the last arrival
	tokens  int        // left to compute for the waiting
	held    int        // steps since one was admitted, for the waiting-served ratio
	asked   int        // where Refresh goes on, in the window
}

// TooLongError refuses a request that could never run.
type TooLongError struct {
	Tokens, Limit int    // that the request may come to, and that are possible
	What          string // what limits it
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("sched: the request may come to %d tokens, prompt and longest answer; %s holds %d; shorten the prompt or ask for fewer tokens", e.Tokens, e.What, e.Limit)
}

// FullError refuses a request because too many wait. How long it may take follows from State.Backlog.
type FullError struct{ Waiting int }

func (e *FullError) Error() string {
	return fmt.Sprintf("sched: %d requests are waiting, as many as may; try again later", e.Waiting)
}

// New returns empty queues.
func New(options Options) (*State, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	s := &State{options: options, held: options.MaxHeldSteps}
	s.waiting.less = func(a, b *Request) bool { return a.order < b.order }
	if options.Policy == ByPriority {
		s.waiting.less = func(a, b *Request) bool {
			return a.Priority < b.Priority || a.Priority == b.Priority && a.order < b.order
		}
	}
	return s, nil
}

// Submit queues a request. It refuses, with a *TooLongError or a *FullError, what could never run or has no room.
func (s *State) Submit(r *Request) error {
	o := &s.options
	switch {
	case r.place != nowhere:
		panic(fmt.Sprintf("sched: request %d is submitted twice", r.ID))
	case r.Target < 1 || r.Computed != 0 || r.Limit < r.Target:
		return fmt.Errorf("sched: request %d has %d tokens, %d computed and at most %d; it must begin with at least one, none computed, and end with no fewer", r.ID, r.Target, r.Computed, r.Limit)
	case r.Limit > o.MaxContext:
		return &TooLongError{r.Limit, o.MaxContext, "the model's context"}
	case r.most(o) > o.Pages && r.Texts > 1:
		return &TooLongError{r.Limit, o.Pages / r.Texts * o.PageSize, fmt.Sprintf("the cache of %d pages, of which each of its %d texts (guidance: with and without the prompt) has a part,", o.Pages, r.Texts)}
	case r.most(o) > o.Pages:
		return &TooLongError{r.Limit, o.Pages * o.PageSize, fmt.Sprintf("the cache of %d pages", o.Pages)}
	case s.waiting.len() >= o.MaxWaiting:
		return &FullError{s.waiting.len()}
	}
	s.order++
	r.order = s.order
	s.enqueue(r)
	return nil
}

// Join lets a request run that shares all it has computed with a running one: a further answer to one prompt. It reports
// whether there is room; if not, the request is still nowhere.
func (s *State) Join(r *Request) bool {
	if len(s.running) >= s.options.MaxSeqs {
		return false
	}
	s.order++
	r.order, r.place = s.order, running
	s.running = append(s.running, r)
	return true
}

// Remove takes out a request that is finished or cancelled. Its pages are the caller's to free.
func (s *State) Remove(r *Request) {
	switch r.place {
	case waiting:
		s.dequeue(r)
	case running:
		at := slices.Index(s.running, r)
		s.running = slices.Delete(s.running, at, at+1)
	}
	r.place = nowhere
}

func (s *State) enqueue(r *Request) {
	r.place = waiting
	s.waiting.add(r)
	s.tokens += r.left()
}

func (s *State) dequeue(r *Request) {
	s.waiting.remove(r)
	s.tokens -= r.left()
}

// Forget has a waiting request that is swapped out be computed again, since its pages are lost.
func (s *State) Forget(r *Request) {
	before := r.left()
	r.Computed, r.Swapped = 0, false
	if r.place == waiting {
		s.tokens += r.left() - before
	}
}

// Running is the running requests, in order of admission. It is valid, and must not be changed, until the next call.
func (s *State) Running() []*Request { return s.running }

// Waiting is the number of waiting requests.
func (s *State) Waiting() int { return s.waiting.len() }

// Backlog is the number of tokens to compute before the requests that wait now have had their first logits. Over the
// measured tokens per second it says when to try again, and whether a deadline can still be met.
func (s *State) Backlog() int {
	n := s.tokens
	for _, r := range s.running {
		n += r.left()
	}
	return n
}

// Refresh asks the cache again what it has for a few of the oldest waiting requests, in turn. Call it before Schedule; it
// does something under the longest-prefix policy only.
func (s *State) Refresh(cache Cache) {
	const few = 4
	n := min(window, s.waiting.len())
	if s.options.Policy != LongestPrefix || n == 0 {
		return
	}
	for range min(few, n) {
		s.asked = (s.asked + 1) % n
		r := s.waiting.items()[s.asked]
		r.Cached = s.Cached(cache, r)
	}
}

// Commit moves the requests as schedule says: the preempted wait again, in their old place in the order, with nothing
// computed unless they are swapped out; the admitted run. The engine brings Computed up to date when it has carried
// out the chunks.
func (s *State) Commit(schedule *Schedule) {
	for _, p := range schedule.Preempt {
		r := p.Request
		at := slices.Index(s.running, r)
		s.running = slices.Delete(s.running, at, at+1)
		r.Swapped = p.Swap
		if !p.Swap {
			r.Computed = 0
		}
		s.enqueue(r)
	}
	s.held++
	for _, c := range schedule.Chunks {
		if c.Admit {
			s.dequeue(c.Request)
			c.Request.place, c.Request.began, c.Request.Rank = running, c.from, c.Rank
			s.running = append(s.running, c.Request)
			s.held = 0
		}
	}
}
