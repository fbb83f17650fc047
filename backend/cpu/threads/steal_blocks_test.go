package threads

import (
	"sync"
	"testing"
)

// TestBlockQueue: every row is taken once a step, whichever worker is fast, a worker's own rows are taken in order, and no more at
// once than were asked for.
func TestBlockQueue(t *testing.T) {
	for _, shape := range [][2]int{{1, 32}, {32, 32}, {257, 32}, {2048, 64}, {1000, 32}, {100000, 96}} {
		for _, workers := range []int{1, 2, 3, 7} {
			q := NewBlockQueue(NewBlocks(shape[0], shape[1], workers))
			for step := uint32(1); step <= 3; step++ {
				most := max(1, int(step-1)*4)
				times := make([]int, shape[0])
				var mu sync.Mutex
				var all sync.WaitGroup
				for id := range workers {
					all.Go(func() {
						if id == 1 && step == 2 {
							return // the others do its share
						}
						last := 0
						first, end := q.Span(id)
						for from, to := q.Next(step, id, most); from < to; from, to = q.Next(step, id, most) {
							mu.Lock()
							for r := from; r < to; r++ {
								times[r]++
							}
							mu.Unlock()
							if to-from > most*q.Size {
								t.Errorf("%v, %d workers: %d rows at once, of blocks of %d", shape, workers, to-from, q.Size)
							}
							if from >= first && to <= end {
								if from < last {
									t.Errorf("%v, %d workers: worker %d got rows from %d after %d", shape, workers, id, from, last)
								}
								last = from
							}
						}
					})
				}
				all.Wait()
				for r, n := range times {
					if n != 1 {
						t.Fatalf("%v, %d workers, step %d: row %d was taken %d times", shape, workers, step, r, n)
					}
				}
			}
		}
	}
}
