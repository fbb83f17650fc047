package cpu

import (
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// TestPortions: every row is handed out once for every pass of a step, whoever is fast, and what a worker gets of its own
// part begins with half of it and ends with a single granule.
func TestPortions(t *testing.T) {
	for _, rows := range []int{1, 32, 257, 2048, 128256} {
		for _, workers := range []int{1, 2, 3, 7} {
			p := newPortions(rows, workers)
			for step, passes := range []int{1, 2, 40, 2} {
				testPortions(t, p, uint32(step+1), passes)
			}
		}
	}
}

func testPortions(t *testing.T, p *portions, step uint32, passes int) {
	times := make([][]int, passes)
	for i := range times {
		times[i] = make([]int, (p.rows+gemm.NR-1)/gemm.NR)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for id := range p.workers {
		all.Go(func() {
			if id == 1 {
				return // the others do its share
			}
			for {
				part, ok := p.take(step, id, passes)
				if !ok {
					return
				}
				mu.Lock()
				if part.from%gemm.NR != 0 || part.to > p.rows || part.from >= part.to {
					t.Errorf("%d rows, %d workers: rows [%d, %d) were handed out", p.rows, p.workers, part.from, part.to)
				}
				for g := part.from / gemm.NR; g*gemm.NR < part.to; g++ {
					times[part.pass][g]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for pass := range times {
		for g, n := range times[pass] {
			if n != 1 {
				t.Fatalf("%d rows, %d workers, step %d: granule %d was handed out %d times in pass %d of %d", p.rows, p.workers, step, g, n, pass, passes)
			}
		}
	}
}

// TestPortionsShrink: a worker by itself takes a pass at once and ends with a granule.
func TestPortionsShrink(t *testing.T) {
	p := newPortions(64*gemm.NR, 1)
	var sizes []int
	for part, ok := p.take(1, 0, 2); ok; part, ok = p.take(1, 0, 2) {
		sizes = append(sizes, (part.to-part.from)/gemm.NR)
	}
	if sizes[0] != 64 || sizes[len(sizes)-1] != 1 || len(sizes) > 10 {
		t.Errorf("portions of %d granules", sizes)
	}
}
