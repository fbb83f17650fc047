package compile

import (
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
)

// prefaulting is the goroutine that goes ahead of the steps in new memory.
type prefaulting struct {
	stop atomic.Bool
	done sync.WaitGroup
}

// stride is how much of a cache is prefaulted at a time: a large page of the system's.
const stride = 2 << 20

// PrefaultAhead has places found for the caches' memory before steps write to it, up to so many bytes in all, where a device's memory
// only gets them then. A step that is the first in a large page of every layer takes tens of milliseconds longer. It
// returns at once; the pages that are given out first come first.
func (p *Program) PrefaultAhead(most int64) {
	device, ok := p.dev.(backend.Prefaulter)
	if !ok {
		return
	}
	p.prefaulting.done.Go(func() {
		for from, more := int64(0), true; more; from += stride {
			more = false
			for _, c := range p.Graph.Caches {
				b := p.pages[c]
				n := min(stride, b.Len-from, most)
				if n <= 0 {
					continue
				}
				if p.prefaulting.stop.Load() {
					return
				}
				device.Prefault(b.Slice(from, n))
				most -= n
				more = true
			}
		}
	})
}

// close waits until nothing is prefaulted any more.
func (t *prefaulting) close() {
	t.stop.Store(true)
	t.done.Wait()
}
