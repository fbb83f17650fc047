package engine

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// queue is the requests that wait and run, and what the next step does with them.
type queue struct {
	state    *sched.State
	pages    *pages
	cache    sched.Cache // what scheduling asks of them
	clock    clock
	byID     map[int64]*request
	nextID   int64
	schedule sched.Schedule // of the next step
	stale    bool           // what schedule was made for has changed
}

func newQueue(o sched.Options, p *pages, c clock) (queue, error) {
	state, err := sched.New(o)
	byID := map[int64]*request{}
	return queue{state: state, pages: p, cache: cache{p, byID}, clock: c, byID: byID, stale: true}, err
}

// add makes a request known.
func (q *queue) add(r *request) {
	r.sched.ID = q.nextID
	q.nextID++
	q.byID[r.sched.ID], q.stale = r, true
}

// enqueue has a request wait its turn.
func (q *queue) enqueue(r *request) error {
	r.sched.Cached = q.state.Cached(q.cache, &r.sched)
	return q.state.Submit(&r.sched)
}

// remove takes a request out.
func (q *queue) remove(r *request) {
	q.state.Remove(&r.sched)
	delete(q.byID, r.sched.ID)
	q.stale, r.ended = true, true
}

// scheduleNext schedules a step from where the requests stand. Pages that have fallen out of their windows are available to it: what it
// writes there is written after the step in flight has read them.
func (q *queue) scheduleNext() {
	if q.pages.Windowed() {
		for _, r := range q.state.Running() {
			q.pages.ranks[r.Rank].Trim(&q.byID[r.ID].seq)
		}
	}
	q.state.Refresh(q.cache)
	q.state.Schedule(&q.schedule, q.cache, int64(q.clock.sinceStart()))
}

// outputs is how many requests the schedule moves to their last known token.
func (q *queue) outputs() (n int) {
	for i := range q.schedule.Chunks {
		if q.schedule.Chunks[i].Logits {
			n++
		}
	}
	return n
}

// commit moves the requests between waiting and running as the schedule says.
func (q *queue) commit() {
	q.state.Commit(&q.schedule)
	q.stale = true
}

// alone schedules a step of one request, which gets all the pages; of so many tokens at most.
func (q *queue) alone(r *sched.Request, most int) {
	s := &q.schedule
	running := slices.Contains(q.state.Running(), r)
	s.Preempt, s.Chunks = s.Preempt[:0], s.Chunks[:0]
	if !running {
		for _, other := range q.state.Running() {
			s.Preempt = append(s.Preempt, sched.Preemption{Request: other})
		}
	}
	n := min(r.Target-r.Computed, most)
	s.Chunks = append(s.Chunks, sched.Chunk{Request: r, Tokens: n, Admit: !running, Rank: r.Rank})
}

// startOver has all running requests wait again with nothing computed, and forgets what is cached: a step that failed may
// have been about to write it. What was being moved to host memory may not have been.
func (q *queue) startOver() {
	for _, r := range q.byID {
		if r.away {
			q.pages.release(r)
			q.state.Forget(&r.sched)
		}
	}
	var all sched.Schedule
	for _, r := range q.state.Running() {
		x := q.byID[r.ID]
		x.pending, x.draft, x.waits, x.asked = 0, draft.Draft{}, false, x.scored
		q.pages.release(x)
		r.Target = len(x.tokens)
		all.Preempt = append(all.Preempt, sched.Preemption{Request: r})
	}
	q.state.Commit(&all)
	q.stale = true
	q.pages.kept.forget()
	for _, m := range q.pages.ranks {
		m.Flush()
	}
}

// count adds the queue's figures.
func (q *queue) count(s *Stats) {
	s.Running, s.Waiting, s.Backlog = len(q.state.Running()), q.state.Waiting(), q.state.Backlog()
	s.CacheRows = 0
	for _, r := range q.state.Running() {
		s.CacheRows += r.Target
	}
}
