package ridge

import (
	"runtime"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/adapter"
)

// Adapters in host memory. All that are known lie on disk; a request has its adapters read, and those give way that cost least to be without: the
// time to read them again, times how often they were used of late. What requests use stays.

// read reads an adapter into host memory, laid out as the device wants it.
func (s *adapterSet) read(path string) (n *engine.AdapterNumbers, took time.Duration, err error) {
	began, readers := time.Now(), s.readers()
	a, err := adapter.Read(path, readers)
	if err != nil {
		return nil, 0, err
	}
	var fit map[*graph.Weight]*graph.LowRank
	err = s.model.reading(func() (err error) {
		fit, err = s.model.dir.Model.Adapt(a, s.prog.Slots())
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	of := func(w *graph.Weight) *graph.LowRank { return fit[w] }
	n = &engine.AdapterNumbers{Rank: a.Rank, Bytes: 4, Invocation: slices.Clone(a.Invocation), Of: of}
	for _, l := range fit {
		n.Size += int64(len(l.A.Data) + len(l.B.Data) + len(l.Rows.Data))
		n.Alone = n.Alone || l.Columns != nil || len(l.Rows.Data) > 0
		if len(l.A.Data) > 0 {
			n.Bytes = l.A.Format.BlockBytes()
		}
	}
	err = s.prog.PackAdapter(of, readers)
	return n, time.Since(began), err
}

// readers is how many goroutines read an adapter. Beside steps on the CPU one has to do, since its cores are the steps' too.
func (s *adapterSet) readers() int {
	if e := s.model.engine; s.model.readsFiles && e != nil && e.Stats().Running > 0 {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// hold keeps the numbers of an adapter, which it took so long to read, and drops others where they are too many. The set's mu is held.
func (a *loadable) hold(n *engine.AdapterNumbers, took time.Duration) {
	s := a.set
	a.numbers, a.rank, a.size = n, n.Rank, n.Size
	if per := took.Seconds() / float64(max(n.Size, 1)); s.perByte == 0 {
		s.perByte = per
	} else {
		s.perByte += (per - s.perByte) / 8
	}
	if s.byName[a.name] != a { // unloaded while it was read, for requests that are there already
		return
	}
	s.held[a] = struct{}{}
	for len(s.held) > s.keep {
		var least *loadable
		worth := 0.0
		for b := range s.held {
			w := float64(b.size) * s.uses.Rate(b.handle.ID)
			if b != a && b.active.Load() == 0 && (least == nil || w < worth) {
				least, worth = b, w
			}
		}
		if least == nil {
			return
		}
		s.drop(least)
	}
}

// drop drops the numbers of an adapter that nobody uses; requests have them as long as they run. The set's mu is held.
func (s *adapterSet) drop(a *loadable) {
	if a == nil {
		return
	}
	delete(s.held, a)
	if a.active.Load() == 0 {
		a.numbers = nil
	}
}

// note notes that a request uses the adapter.
func (a *loadable) note() {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	a.set.uses.Note(a.handle.ID)
}

// fetch implements engine.Adapter.Fetch.
func (a *loadable) fetch(ready func()) {
	s := a.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.numbers != nil {
		ready()
		return
	}
	a.waiters = append(a.waiters, ready)
	if a.loading {
		return
	}
	a.loading, a.err = true, nil
	s.reads.Go(func() {
		numbers, took, err := s.read(a.path)
		s.mu.Lock()
		a.loading, a.err = false, err
		if err == nil {
			a.hold(numbers, took)
		}
		waiters := a.waiters
		a.waiters = nil
		s.mu.Unlock()
		for _, ready := range waiters {
			ready()
		}
	})
}

// fetching implements engine.Adapter.Fetching.
func (a *loadable) fetching() float64 {
	s := a.set
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.byName[a.name] != a:
		return -1
	case a.numbers != nil:
		return 0
	}
	return float64(a.size) * s.perByte
}

// loaded implements engine.Adapter.Loaded.
func (a *loadable) loaded() (engine.AdapterNumbers, bool, error) {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	if a.numbers == nil {
		return engine.AdapterNumbers{}, false, a.err
	}
	return *a.numbers, true, nil
}
