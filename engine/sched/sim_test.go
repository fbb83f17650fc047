package sched

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// simulation is an engine without a model: it carries out schedules on a cache that only counts, and draws how long
// answers are.
type simulation struct {
	state    *State
	schedule Schedule
	cache    caches
	now      int64
	all      []*Request
	answer   map[*Request]int // the target at which it ends
	finished map[*Request]bool
}

// counting is a cache of numbers. Requests hold pages of their own, but for a beginning that some have in common and
// that stays in the cache, idle, when no request holds it, until its pages are taken.
type counting struct {
	size, pages int              // tokens per page, pages
	own         map[*Request]int // pages held alone
	sharing     map[*Request]int // pages held of the common beginning
	common      int              // pages of it that are in the cache
	host        int              // pages
}

// caches are those of the ranks.
type caches []*counting

func (c caches) Available(rank int) int                        { return c[rank].Available() }
func (c caches) Need(r *Request, tokens int) int               { return c[r.Rank].Need(r, tokens) }
func (c caches) Returns(r *Request) int                        { return c[r.Rank].Returns(r) }
func (c caches) Match(r *Request, rank int) (tokens, idle int) { return c[rank].Match(r) }
func (c caches) HostAvailable(rank int) int                    { return c[rank].host }

func (c *counting) held() int {
	most := 0
	for _, n := range c.sharing {
		most = max(most, n)
	}
	return most
}

func (c *counting) Available() int {
	n := c.pages - c.held()
	for _, own := range c.own {
		n -= own
	}
	return n
}

func (c *counting) Need(r *Request, tokens int) int {
	return (r.Computed+tokens+c.size-1)/c.size - c.own[r] - c.sharing[r]
}

func (c *counting) Returns(r *Request) int { return c.own[r] }

// Match: requests of even ID have the common beginning.
func (c *counting) Match(r *Request) (tokens, idle int) {
	if r.ID%2 == 1 {
		return 0, 0
	}
	n := min(c.common, (r.Target-1)/c.size)
	return n * c.size, max(0, n-c.held())
}

func (c *counting) release(r *Request) {
	delete(c.own, r)
	delete(c.sharing, r)
}

// take gives a request pages, idle ones if it must.
func (c *counting) take(r *Request, n int) {
	c.own[r] += n
	if over := c.common - c.held() - c.Available(); over > 0 {
		c.common -= over
	}
}

// step schedules, checks the schedule against what it promises, and carries it out.
func (s *simulation) step() error {
	s.now++
	s.state.Refresh(s.cache)
	s.state.Schedule(&s.schedule, s.cache, s.now)
	if err := s.check(); err != nil {
		return err
	}
	s.state.Commit(&s.schedule)
	for _, p := range s.schedule.Preempt {
		if p.Swap {
			s.cache[p.Request.Rank].host -= s.state.options.pagesFor(p.Request.Computed)
		}
		s.cache[p.Request.Rank].release(p.Request)
	}
	for _, c := range s.schedule.Chunks {
		r, cache := c.Request, s.cache[c.Rank]
		switch {
		case r.Swapped:
			r.Swapped = false
			s.cache[r.Rank].host += s.state.options.pagesFor(r.Computed)
		case c.Admit:
			tokens, _ := cache.Match(r)
			r.Computed = tokens
			cache.sharing[r] = tokens / cache.size
		}
		n := min(c.Tokens, r.left())
		need := cache.Need(r, n)
		if need > cache.Available() {
			return fmt.Errorf("request %d needs %d pages for its %d tokens; the schedule leaves it %d", r.ID, need, n, cache.Available())
		}
		cache.take(r, need)
		if r.Computed += n; r.Computed < r.Target {
			continue
		}
		if r.Target == s.answer[r] {
			s.finish(r)
			continue
		}
		r.Target++
	}
	return nil
}

func (s *simulation) finish(r *Request) {
	s.state.Remove(r)
	if c := s.cache[r.Rank]; r.ID%2 == 0 && c.sharing[r] == c.common && c.own[r] > 0 {
		c.common++ // its first own page stays as part of the common beginning
		c.sharing[r]++
		c.own[r]--
	}
	s.cache[r.Rank].release(r)
	s.finished[r] = true
}

// check holds the schedule to its rules.
func (s *simulation) check() error {
	o := &s.state.options
	seen := map[*Request]bool{}
	var pages, host, prompts []int // of each rank: pages that are left, those of host memory, and tokens of prompts
	for rank := range s.cache {
		pages, host, prompts = append(pages, s.cache.Available(rank)), append(host, s.cache.HostAvailable(rank)), append(prompts, 0)
	}
	for _, p := range s.schedule.Preempt {
		pages[p.Request.Rank] += s.cache.Returns(p.Request)
		if p.Swap {
			host[p.Request.Rank] -= o.pagesFor(p.Request.Computed)
		}
		if seen[p.Request] || p.Request.place != running {
			return fmt.Errorf("request %d is preempted twice, or does not run", p.Request.ID)
		}
		seen[p.Request] = true
	}
	if o.Whole && len(s.schedule.Preempt) > 0 {
		return fmt.Errorf("request %d is preempted where all that it may come to was reserved", s.schedule.Preempt[0].Request.ID)
	}
	tokens, seqs := 0, len(s.state.running)-len(s.schedule.Preempt)
	for _, c := range s.schedule.Chunks {
		if seen[c.Request] || c.Tokens < 1 || c.Tokens > c.Request.left() || c.Admit != (c.Request.place == waiting) {
			return fmt.Errorf("request %d: chunk %+v", c.Request.ID, c)
		}
		seen[c.Request] = true
		tokens += c.Tokens
		pages[c.Rank] -= c.pages
		if !c.Admit && c.Rank != c.Request.Rank {
			return fmt.Errorf("request %d runs on rank %d and gets pages of rank %d", c.Request.ID, c.Request.Rank, c.Rank)
		}
		if prompts[c.Rank] += c.Tokens; c.Request.left() <= short {
			prompts[c.Rank] -= c.Tokens
		}
		if c.Admit {
			seqs++
			if len(s.schedule.Preempt) > 0 {
				return fmt.Errorf("request %d is admitted while others are preempted", c.Request.ID)
			}
		}
	}
	if tokens > o.MaxBatchedTokens || seqs > o.MaxSeqs || tokens != s.schedule.Shape.Tokens {
		return fmt.Errorf("%d tokens (shape: %d) of %d, %d requests of %d", tokens, s.schedule.Shape.Tokens, o.MaxBatchedTokens, seqs, o.MaxSeqs)
	}
	if p := &s.schedule; !slices.Equal(p.available, pages) || !slices.Equal(p.host, host) || p.budget != o.MaxBatchedTokens-tokens || slices.Min(pages) < 0 || slices.Min(host) < 0 {
		return fmt.Errorf("the schedule leaves %d pages, %d host pages, %d tokens; it counts %d, %d, %d", pages, host, o.MaxBatchedTokens-tokens, p.available, p.host, p.budget)
	}
	if most := slices.Max(prompts); len(s.cache) > 1 && most > o.share()+short && !o.Whole {
		return fmt.Errorf("a rank has %d tokens of prompts, and an equal share of the step is %d", most, o.share())
	}
	for _, r := range s.state.running {
		if r.left() == 1 && !seen[r] {
			return fmt.Errorf("request %d is answering and gets no token", r.ID)
		}
	}
	if tokens == 0 && len(s.state.running)+s.state.Waiting() > 0 {
		return fmt.Errorf("%d requests run, %d wait, and nothing moves", len(s.state.running), s.state.Waiting())
	}
	return nil
}

// newSimulation draws settings and makes an empty engine of one or several ranks.
func newSimulation(t *rapid.T) *simulation {
	return newSimulationOf(t, rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "ranks"))
}

func newSimulationOf(t *rapid.T, ranks int) *simulation {
	size := rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "page size")
	seqs := rapid.IntRange(1, 8).Draw(t, "max seqs")
	o := Options{
		Policy:           rapid.SampledFrom([]Policy{FCFS, ByPriority, LongestPrefix}).Draw(t, "policy"),
		Pages:            rapid.IntRange(1, 40).Draw(t, "pages"),
		Ranks:            ranks,
		PageSize:         size,
		MaxContext:       200,
		MaxBatchedTokens: seqs + size + rapid.IntRange(0, 60).Draw(t, "tokens"),
		MaxSeqs:          seqs,
		MaxWaiting:       20,
		AgingBound:       rapid.Int64Range(0, 50).Draw(t, "aging"),
	}
	if o.Pages > 5 {
		o.Watermark = rapid.IntRange(0, 2).Draw(t, "watermark")
	}
	if rapid.Bool().Draw(t, "held back") {
		o.WaitingServedRatio, o.MaxHeldSteps = 1.2, 5
	}
	if rapid.Bool().Draw(t, "priced") {
		o.Price = func(s Shape) float64 { return float64(10 + s.Tokens + s.Rows/8) }
		if rapid.Bool().Draw(t, "by ratio") {
			o.Usual = o.Price
			o.ITLRatio = rapid.Float64Range(1.1, 10).Draw(t, "ratio")
		} else {
			o.TargetITL = rapid.Float64Range(1, 100).Draw(t, "target")
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "whole") == 0 {
		o.Whole, o.MaxBatchedTokens = true, o.MaxBatchedTokens+o.MaxContext
	}
	if rapid.Bool().Draw(t, "swapping") {
		o.SwapPrice = func(r *Request) (float64, float64) { return float64(r.Computed), 10 }
	}
	state, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var cache caches
	for range ranks {
		cache = append(cache, &counting{size: size, pages: o.Pages, own: map[*Request]int{}, sharing: map[*Request]int{}, host: rapid.IntRange(0, 10).Draw(t, "host")})
	}
	return &simulation{
		state:    state,
		cache:    cache,
		answer:   map[*Request]int{},
		finished: map[*Request]bool{},
	}
}

// submit draws a request. It is queued, or refused as the rules say.
func (s *simulation) submit(t *rapid.T) {
	o := &s.state.options
	r := &Request{
		ID:       int64(len(s.all)),
		Arrived:  s.now,
		Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
		Target:   rapid.IntRange(1, 150).Draw(t, "prompt"),
	}
	r.Limit = r.Target + rapid.IntRange(0, 60).Draw(t, "longest answer")
	if o.Whole {
		r.Texts = rapid.IntRange(0, 2).Draw(t, "texts")
	}
	full := s.state.Waiting() >= o.MaxWaiting
	fits := r.Limit <= o.MaxContext && max(r.Texts, 1)*((r.Limit+o.PageSize-1)/o.PageSize) <= o.Pages
	if err := s.state.Submit(r); (err == nil) != (fits && !full) {
		t.Fatalf("a request of %d tokens: %v", r.Limit, err)
	} else if err == nil {
		s.all = append(s.all, r)
		s.answer[r] = rapid.IntRange(r.Target, r.Limit).Draw(t, "answer")
	}
}
