package adapters

import "slices"

// Queue is one pass over the requests that wait for slots, in the order in which they came: Begin, Take for each, End. It keeps the aging bound: behind
// a request that has waited longer and finds no room, others get adapters that are in slots and no further slots.
type Queue struct {
	pool *Pool
	held bool     // one has waited for the aging bound and finds no room
	keep []uint64 // the adapters of the first such
	need []uint64 // adapters that such requests have no slots for
}

// Begin begins a pass.
func (q *Queue) Begin(p *Pool) {
	q.pool, q.held, q.keep, q.need = p, false, q.keep[:0], q.need[:0]
}

// Take is Pool.Take for the next request, which has waited for the aging bound or not.
func (q *Queue) Take(ids []uint64, overdue bool, slots []int, loads []Load) ([]int, []Load, bool) {
	slots, loads, ok := q.pool.Take(ids, q.held, slots, loads)
	if ok || !overdue {
		return slots, loads, ok
	}
	first := !q.held
	if first {
		q.held, q.keep = true, append(q.keep, ids...)
	}
	for _, id := range ids {
		missing := q.pool.find(id) < 0 || !first && !q.pool.open(id)
		if missing && !slices.Contains(q.need, id) {
			q.need = append(q.need, id)
		}
	}
	return slots, loads, false
}

// End closes slots for those that have waited for the aging bound, and opens all if none has.
func (q *Queue) End() { q.pool.age(len(q.need), q.held, q.keep) }
