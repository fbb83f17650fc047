package threads

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/internal/background"
)

// TestPool: no worker passes a barrier before all have arrived, also when some arrive so late that the others park.
func TestPool(t *testing.T) {
	p := New(3, Topology{}, nil)
	defer p.Close()
	for round := range 50 {
		var arrived atomic.Int32
		p.Run(func(id int) {
			for phase := int32(1); phase <= 20; phase++ {
				if phase == 7 && id == round%3 && round%10 == 0 {
					time.Sleep(time.Millisecond)
				}
				arrived.Add(1)
				p.Sync(id)
				if n := arrived.Load(); n < 3*phase {
					t.Errorf("worker %d passed barrier %d when %d of 3 had come", id, phase, n-3*(phase-1))
				}
				p.Sync(id)
			}
		})
	}
}

// BenchmarkBarrier is the cost of one barrier when no worker is late.
func BenchmarkBarrier(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			p := New(threads, Topology{}, nil)
			defer p.Close()
			b.ResetTimer()
			p.Run(func(id int) {
				for range b.N {
					p.Sync(id)
				}
			})
		})
	}
}

// TestPoolSurvives: a panic in any worker, before or after others wait for it spinning or parked, comes out of Run, and the next
// Run works.
func TestPoolSurvives(t *testing.T) {
	p := New(3, Topology{}, nil)
	defer p.Close()
	for bad := range 3 {
		for _, late := range []time.Duration{0, 2 * spinWithinStep} {
			got := func() (v any) {
				defer func() { v = recover() }()
				p.Run(func(id int) {
					p.Sync(id)
					if id == bad {
						time.Sleep(late)
						panic(bad)
					}
					p.Sync(id)
					t.Errorf("worker %d passed a barrier that worker %d did not come to", id, bad)
				})
				return nil
			}()
			if f, ok := got.(*failure); !ok || f.value != bad {
				t.Errorf("worker %d panicked; out came %v", bad, got)
			}
			var n atomic.Int32
			p.Run(func(id int) { n.Add(1); p.Sync(id); p.Sync(id) })
			if n.Load() != 3 {
				t.Errorf("%d of 3 workers did the next job", n.Load())
			}
		}
	}
}

// TestPoolTakesAll: work in the background is told of jobs for which workers take all processors, and of no others.
func TestPoolTakesAll(t *testing.T) {
	during := func(n int) (stepping bool) {
		p := New(n, Topology{}, nil)
		defer p.Close()
		p.Run(func(id int) {
			if id == 0 {
				stepping = background.Stepping()
			}
		})
		return stepping
	}
	time.Sleep(10 * time.Millisecond) // after what another test ran
	if n := runtime.NumCPU(); n > 1 && during(n-1) {
		t.Errorf("%d workers take all of %d processors", n-1, n)
	}
	if !during(runtime.NumCPU()) {
		t.Error("as many workers as processors do not take all")
	}
}
