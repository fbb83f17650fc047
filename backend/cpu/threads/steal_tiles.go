package threads

// TileQueue is a work-stealing queue of a matmul with many rows of activations, which are multiplied in several passes. Its items
// are panels of the matrix's rows for one of the passes. A worker has an equal part of the panels, pass after pass, and takes
// half of what is left of it each time, so that it keeps the same activations in its cache, and ends with small items. One
// that is done steals half of what is left to another, from the end.
type TileQueue struct {
	rows, panel, workers int
	taken                []taken // of each worker's part, in items
}

// Tiles is rows [From, To) of the matrix for one pass.
type Tiles struct{ Pass, From, To int }

// NewTileQueue is a queue of rows in panels of so many.
func NewTileQueue(rows, panel, workers int) *TileQueue {
	return &TileQueue{rows, panel, workers, make([]taken, workers)}
}

// Next takes something for the worker to compute in this step, of so many passes; false when all is taken. A step with another
// number than the last begins with all tiles; numbers are never 0.
func (q *TileQueue) Next(step uint32, worker, passes int) (Tiles, bool) {
	panels := (q.rows + q.panel - 1) / q.panel
	size := 1 + panels*passes>>16 // panels of an item: taken has 16 bits for each count
	for i := range q.workers {
		other := (worker + i) % q.workers
		first, last := panels*other/q.workers, panels*(other+1)/q.workers
		perPass := (last - first + size - 1) / size
		for perPass > 0 {
			now := q.taken[other].Load()
			next := now
			if uint32(now>>32) != step {
				next = uint64(step) << 32
			}
			front, back := int(next&0xffff), int(next>>16&0xffff)
			left := perPass*passes - front - back
			if left == 0 {
				break
			}
			n, more := min((left+1)/2, perPass-front%perPass), uint64(1)
			at := front
			if i > 0 {
				n, more = min((left+1)/2, perPass-back%perPass), 1<<16
				at = perPass*passes - back - n
			}
			if q.taken[other].CompareAndSwap(now, next+uint64(n)*more) {
				from := first + at%perPass*size
				to := min(from+n*size, last)
				return Tiles{at / perPass, from * q.panel, min(to*q.panel, q.rows)}, true
			}
		}
	}
	return Tiles{}, false
}
