package engine

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// queue is the requests that wait and run, and what the next step does with them.
type queue struct {
	state    *sched.State
	cache    sched.Cache // what scheduling asks of the pages
	byID     map[int64]*request
	nextID   int64
	schedule sched.Schedule // of the next step
	stale    bool           // what schedule was made for has changed
}

// add makes a request known.
func (q *queue) add(r *request) {
	r.sched.ID = q.nextID
	q.nextID++
	q.byID[r.sched.ID], q.stale = r, true
}

// remove takes a request out.
func (q *queue) remove(r *request) {
	q.state.Remove(&r.sched)
	delete(q.byID, r.sched.ID)
	q.stale, r.ended = true, true
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
	s.Chunks = append(s.Chunks, sched.Chunk{Request: r, Tokens: n, Admit: !running})
}

// restart has all running requests wait again with nothing computed.
func (q *queue) restart() {
	var all sched.Schedule
	for _, r := range q.state.Running() {
		q.byID[r.ID].pending, q.byID[r.ID].draft = 0, draft.Draft{}
		r.Target = len(q.byID[r.ID].tokens)
		all.Preempt = append(all.Preempt, sched.Preemption{Request: r})
	}
	q.state.Commit(&all)
	q.stale = true
}

// count adds the queue's figures.
func (q *queue) count(s *Stats) {
	s.Running, s.Waiting, s.Backlog = len(q.state.Running()), q.state.Waiting(), q.state.Backlog()
	s.CacheRows = 0
	for _, r := range q.state.Running() {
		s.CacheRows += r.Target
	}
}
