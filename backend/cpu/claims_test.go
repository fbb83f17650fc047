package cpu

import (
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// TestClaims: every row is handed out once a step, whoever is fast, a worker's own rows come in order, and no more at once than
// were asked for.
func TestClaims(t *testing.T) {
	for _, shape := range [][2]int{{1, 32}, {32, 64}, {257, 4096}, {2048, 2048}, {1000, 8192}} {
		for _, workers := range []int{1, 2, 3, 7} {
			w := &gemm.Weights{Format: quant.Q4_0, Rows: shape[0], Cols: shape[1]}
			c := &claims{blocks: blocksOf(w, workers), taken: make([]taken, workers)}
			for step := uint32(1); step <= 3; step++ {
				most := max(1, int(step-1)*mostBlocks)
				times := make([]int, shape[0])
				var mu sync.Mutex
				var all sync.WaitGroup
				for id := range workers {
					all.Go(func() {
						if id == 1 && step == 2 {
							return // the others do its share
						}
						last := 0
						first, end := c.span(id)
						for from, to := c.take(step, id, most); from < to; from, to = c.take(step, id, most) {
							mu.Lock()
							for r := from; r < to; r++ {
								times[r]++
							}
							mu.Unlock()
							if to-from > most*c.block {
								t.Errorf("%v, %d workers: %d rows at once, of blocks of %d", shape, workers, to-from, c.block)
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
						t.Fatalf("%v, %d workers, step %d: row %d was handed out %d times", shape, workers, step, r, n)
					}
				}
			}
		}
	}
}

// TestFollowing: after the last product of a step comes the first of the next.
func TestFollowing(t *testing.T) {
	a, b := &gemm.Weights{}, &gemm.Weights{}
	list := launchesOf(nil, a, nil, b, nil)
	for i, want := range []*gemm.Weights{a, b, b, a, a} {
		if got := following(list)[i]; got != want {
			t.Errorf("launch %d is followed by another matrix than it should be", i)
		}
	}
	if following(launchesOf(nil, nil))[0] != nil {
		t.Error("a step without products is followed by one")
	}
}

func launchesOf(weights ...*gemm.Weights) []backend.Launch {
	var all []backend.Launch
	for _, w := range weights {
		all = append(all, &launch{weights: w})
	}
	return all
}
