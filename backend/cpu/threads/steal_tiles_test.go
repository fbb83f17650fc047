package threads

import (
	"sync"
	"testing"
)

// panel is the rows of a panel in these tests.
const panel = 32

// TestTileQueue: every row is taken once for every pass of a step, whichever worker is fast.
func TestTileQueue(t *testing.T) {
	for _, rows := range []int{1, 32, 257, 2048, 128256} {
		for _, workers := range []int{1, 2, 3, 7} {
			q := NewTileQueue(rows, panel, workers)
			for step, passes := range []int{1, 2, 40, 2} {
				testTiles(t, q, uint32(step+1), passes)
			}
		}
	}
}

func testTiles(t *testing.T, q *TileQueue, step uint32, passes int) {
	times := make([][]int, passes)
	for i := range times {
		times[i] = make([]int, (q.rows+panel-1)/panel)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for id := range q.workers {
		all.Go(func() {
			if id == 1 {
				return // the others do its share
			}
			for {
				part, ok := q.Next(step, id, passes)
				if !ok {
					return
				}
				mu.Lock()
				if part.From%panel != 0 || part.To > q.rows || part.From >= part.To {
					t.Errorf("%d rows, %d workers: rows [%d, %d) were taken", q.rows, q.workers, part.From, part.To)
				}
				for g := part.From / panel; g*panel < part.To; g++ {
					times[part.Pass][g]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for pass := range times {
		for g, n := range times[pass] {
			if n != 1 {
				t.Fatalf("%d rows, %d workers, step %d: panel %d was taken %d times in pass %d of %d", q.rows, q.workers, step, g, n, pass, passes)
			}
		}
	}
}

// TestTileQueueShrinks: a single worker takes a pass at once and ends with single panels.
func TestTileQueueShrinks(t *testing.T) {
	q := NewTileQueue(64*panel, panel, 1)
	var sizes []int
	for part, ok := q.Next(1, 0, 2); ok; part, ok = q.Next(1, 0, 2) {
		sizes = append(sizes, (part.To-part.From)/panel)
	}
	if sizes[0] != 64 || sizes[len(sizes)-1] != 1 || len(sizes) > 10 {
		t.Errorf("items of %d panels", sizes)
	}
}
