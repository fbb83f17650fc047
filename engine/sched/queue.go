package sched

import "slices"

// queue is the waiting requests in order. It has room in front, where most are taken, so that taking one moves few
// others; the room is used again when the back is full.
type queue struct {
	slots []*Request
	front int                      // slots[front:] are the requests
	less  func(a, b *Request) bool // a strict order of all requests
}

func (q *queue) len() int          { return len(q.slots) - q.front }
func (q *queue) items() []*Request { return q.slots[q.front:] }

// find is the place of r, or where it belongs.
func (q *queue) find(r *Request) int {
	at, _ := slices.BinarySearchFunc(q.items(), r, func(item, r *Request) int {
		switch {
		case q.less(item, r):
			return -1
		case q.less(r, item):
			return 1
		}
		return 0
	})
	return q.front + at
}

func (q *queue) add(r *Request) {
	if len(q.slots) == cap(q.slots) && q.front > len(q.slots)/2 {
		n := copy(q.slots, q.items())
		clear(q.slots[n:])
		q.slots, q.front = q.slots[:n], 0
	}
	at := len(q.slots)
	if n := q.len(); n > 0 && !q.less(q.slots[at-1], r) {
		at = q.find(r)
	}
	if at == q.front && at > 0 {
		q.front--
		q.slots[q.front] = r
		return
	}
	q.slots = slices.Insert(q.slots, at, r)
}

// remove takes r out and closes the gap from the front.
func (q *queue) remove(r *Request) {
	at := q.find(r)
	copy(q.slots[q.front+1:at+1], q.slots[q.front:at])
	q.slots[q.front] = nil
	q.front++
}
