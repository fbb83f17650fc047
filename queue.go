package ridge

import "sync"

// queue carries pieces from the engine, which must never wait, to a reader, which may be slow. It grows with what the
// reader has not read: at most the answer.
type queue struct {
	mu    sync.Mutex
	ready *sync.Cond
	items []item
}

type item struct {
	piece Piece
	err   error
}

func (q *queue) init() { q.ready = sync.NewCond(&q.mu) }

func (q *queue) put(p Piece, err error) {
	q.mu.Lock()
	q.items = append(q.items, item{p, err})
	q.mu.Unlock()
	q.ready.Signal()
}

// next waits for the next piece.
func (q *queue) next() (Piece, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 {
		q.ready.Wait()
	}
	i := q.items[0]
	q.items = q.items[1:]
	return i.piece, i.err
}
