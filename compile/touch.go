package compile

import (
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
)

// touching is the goroutine that goes ahead of the steps in new memory.
type touching struct {
	stop atomic.Bool
	done sync.WaitGroup
}

// stride is how much of a cache is touched at a time: a large page of the system's.
const stride = 2 << 20

// TouchAhead has places found for the caches' memory before steps write to it, up to so many bytes in all, where a device's memory
// only gets them then. A step that is the first in a large page of every layer takes tens of milliseconds longer. It
// returns at once; the pages that are given out first come first.
func (p *Program) TouchAhead(most int64) {
	device, ok := p.dev.(backend.Toucher)
	if !ok {
		return
	}
	p.touching.done.Go(func() {
		for from, more := int64(0), true; more; from += stride {
			more = false
			for _, c := range p.Graph.Caches {
				b := p.pages[c]
				n := min(stride, b.Len-from, most)
				if n <= 0 {
					continue
				}
				if p.touching.stop.Load() {
					return
				}
				device.Touch(b.Slice(from, n))
				most -= n
				more = true
			}
		}
	})
}

// close waits until nothing is touched any more.
func (t *touching) close() {
	t.stop.Store(true)
	t.done.Wait()
}
