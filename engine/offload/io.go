package offload

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
)

// speed is what reading from a store takes, as measured.
type speed struct {
	perByte float64 // s, opening files included; 0: nothing has been read, and the first read finds out
}

// note takes in a read.
func (s *speed) note(bytes int64, took float64) {
	each := took / float64(max(bytes, 1))
	if s.perByte == 0 {
		s.perByte = each
	}
	s.perByte += (each - s.perByte) / 8
}

// refused is noted when a store is not read since that would take too long. Only reads correct what is known, so each time a little of it is forgotten, and what was slow once is tried again.
func (s *speed) refused() { s.perByte -= s.perByte / 8 }

// Fetch is pages that are to come from stores to host memory.
type Fetch struct {
	Keys     []kv.Key      // of a text, one behind the other
	Bytes    int64         // of a key, at most
	PerKey   time.Duration // that computing the tokens of one takes: what takes longer is not read
	Deadline time.Time     // when nobody waits for it any more; put off while Peer computes
	Peer     Peer          // another server that computes them; nil: there is none. It is asked for what nobody else has, whatever that takes

	ended    atomic.Bool
	timer    *time.Timer
	patience time.Duration
}

// Ended reports whether the fetch is over.
func (f *Fetch) Ended() bool { return f.ended.Load() }

// End ends the fetch of a request that has gone.
func (f *Fetch) End() { f.ended.Store(true) }

const (
	peerPatience = 2 * time.Second // at least, of who waits for a peer that says nothing
	mostPeers    = 256             // fetches from peers at once
	filledBy     = 500 * time.Millisecond
	mostAsked    = 32 // keys that a peer is asked for at once: their copies take many times what the messages about them take
)

// waiting puts the deadline off: a peer still computes. It reports whether somebody waits.
func (t *Tier) waiting(f *Fetch) bool {
	select {
	case <-t.closing:
		return false
	default:
	}
	if f.ended.Load() {
		return false
	}
	f.timer.Reset(f.patience)
	return true
}

// Fetch begins to read; false if too many others wait for theirs, or there is no store.
func (t *Tier) Fetch(f *Fetch) bool {
	f.patience = time.Until(f.Deadline)
	late := func() { t.tell(f) } // f.timer may not be set when it comes
	switch {
	case f.Peer != nil: // who waits for a prompt to be computed keeps no others waiting
		if t.peers.Add(1) > mostPeers {
			t.peers.Add(-1)
			return false
		}
		f.patience = max(f.patience, peerPatience)
		f.timer = time.AfterFunc(f.patience, late)
		t.working.Go(func() {
			defer t.peers.Add(-1)
			t.fetch(f)
			t.ended(f)
		})
		return true
	case len(t.options.Stores) == 0:
		return false
	}
	f.timer = time.AfterFunc(f.patience, late)
	select {
	case t.fetches <- f:
		return true
	default:
		f.timer.Stop()
		return false
	}
}

// ended ends a fetch.
func (t *Tier) ended(f *Fetch) {
	f.timer.Stop()
	t.tell(f)
}

// tell notes that a fetch has ended and tells of it, once.
func (t *Tier) tell(f *Fetch) {
	if !f.ended.Swap(true) {
		t.options.Wake()
	}
}

// read does fetches until the tier closes.
func (t *Tier) read() {
	for {
		select {
		case <-t.closing:
			return
		case f := <-t.fetches:
			t.fetch(f)
			t.ended(f)
		}
	}
}

// fetch reads keys one behind the other until one is nowhere, or nobody waits any more.
func (t *Tier) fetch(f *Fetch) {
	run, where := t.promised(f)
	if run == 0 || !t.worth(f, run, where) {
		return
	}
	var failed atomic.Bool
	var next atomic.Int64
	var streams sync.WaitGroup
	n := min(t.streams(f), run)
	each := 1
	if f.Peer != nil {
		each = min(max(run/(2*n), 1), mostAsked)
	}
	for range n {
		streams.Go(func() {
			for !failed.Load() && !f.ended.Load() {
				at := int(next.Add(int64(each))) - each
				if at >= run {
					return
				}
				if !t.fetchKeys(f, f.Keys[at:min(at+each, run)]) {
					failed.Store(true) // what comes behind it is of no use
				}
			}
		})
	}
	streams.Wait()
	if f.Peer != nil {
		f.Peer.Release()
	}
}

// streams is how many keys of a fetch are read side by side: those of a peer come over a connection each, and stores that are far away say how many.
func (t *Tier) streams(f *Fetch) int {
	n := 1
	if f.Peer != nil {
		n = 4
	}
	for _, s := range t.options.Stores {
		if far, ok := s.(interface{ Streams() int }); ok {
			n = max(n, far.Streams())
		}
	}
	return n
}

// promised is how many keys host memory or a store has, from the first on, and how many of them each store.
func (t *Tier) promised(f *Fetch) (run int, where []int) {
	where = make([]int, len(t.options.Stores))
	for _, key := range f.Keys {
		if _, ok := t.Find(key); ok {
			run++
			continue
		}
		found := false
		for i, s := range t.options.Stores {
			if found = s.Has(key); found {
				where[i]++
				break
			}
		}
		if !found && f.Peer == nil {
			break
		}
		run++
	}
	return run, where
}

// worth reports whether reading takes less than computing.
func (t *Tier) worth(f *Fetch, run int, where []int) bool {
	if f.Peer != nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	took := 0.0
	for i, n := range where {
		took += float64(int64(n)*f.Bytes) * t.speed[i].perByte
	}
	if took < float64(run)*f.PerKey.Seconds() {
		return true
	}
	for i, n := range where {
		if n > 0 {
			t.speed[i].refused()
		}
	}
	return false
}

// fetchKeys brings keys to host memory, and reports whether all are there: what only a peer has comes many at a time.
func (t *Tier) fetchKeys(f *Fetch, keys []kv.Key) bool {
	for len(keys) > 0 {
		if f.ended.Load() {
			return false
		}
		claimed := t.claim(f, keys)
		if claimed == 0 {
			if !t.fetchKey(f, keys[0]) {
				return false
			}
			keys = keys[1:]
			continue
		}
		n := t.readPeer(f, keys[:claimed])
		if n == 0 {
			return false
		}
		keys = keys[n:]
	}
	return true
}

// claim takes the first keys that neither host memory nor a store has and nobody reads, and returns how many. None where there is no peer, or where the tier is closed.
func (t *Tier) claim(f *Fetch, keys []kv.Key) (n int) {
	if f.Peer == nil {
		return 0
	}
	select {
	case <-t.closing:
		return 0
	default:
	}
	n = len(keys)
	for i, key := range keys {
		if slices.ContainsFunc(t.options.Stores, func(s Store) bool { return s.Has(key) }) {
			n = i
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	done := make(chan struct{})
	for i, key := range keys[:n] {
		if _, ok := t.host.Find(key); ok || t.filling[key] != nil {
			return i
		}
		t.filling[key] = done
	}
	return n
}

// readPeer reads claimed keys, as many as have come, from the first on, and gives all of them back.
func (t *Tier) readPeer(f *Fetch, keys []kv.Key) int {
	pages, bytes := make([][]kv.KeyedPage, len(keys)), make([]int64, len(keys))
	n, err := f.Peer.Read(keys, func() bool { return t.waiting(f) }, func(i int, parts []Part) (ok bool) {
		pages[i], bytes[i], ok = t.place(keys[i], parts)
		return ok
	})
	for i := range n {
		t.spread(pages[i])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.stats.Damaged++
	}
	for i := range keys {
		if t.keep(keys[i], pages[i], i < n) {
			t.origin[keys[i]] = AtPeer
			t.stats.Received += bytes[i]
		}
	}
	if done := t.filling[keys[0]]; done != nil { // one for all
		close(done)
	}
	for _, key := range keys {
		delete(t.filling, key)
	}
	return n
}

// fetchKey brings a key to host memory, and reports whether it is there.
func (t *Tier) fetchKey(f *Fetch, key kv.Key) bool {
	select {
	case <-t.closing:
		return false
	default:
	}
	t.mu.Lock()
	for {
		other := t.filling[key]
		if other == nil {
			break
		}
		t.mu.Unlock()
		if !t.otherFills(f, other) {
			return false
		}
		t.mu.Lock()
	}
	if _, ok := t.host.Find(key); ok {
		t.host.Touch(key)
		t.mu.Unlock()
		return true
	}
	done := make(chan struct{})
	t.filling[key] = done
	t.mu.Unlock()
	ok := false
	for i, s := range t.options.Stores {
		if ok = t.readFrom(Origin(i), s, key); ok {
			break
		}
	}
	if !ok && f.Peer != nil { // another fetch has not brought it
		return t.readPeer(f, []kv.Key{key}) == 1
	}
	t.mu.Lock()
	delete(t.filling, key)
	t.mu.Unlock()
	close(done)
	return ok
}

// otherFills waits for another fetch that reads a key. That may be for a peer to compute it.
func (t *Tier) otherFills(f *Fetch, other chan struct{}) bool {
	tick := time.NewTicker(filledBy)
	defer tick.Stop()
	for {
		select {
		case <-other:
			return true
		case <-tick.C:
			if f.ended.Load() || f.Peer != nil && !t.waiting(f) {
				return false
			}
		}
	}
}

// place gives what is read of a key its pages of host memory, and reports whether it has room there.
func (t *Tier) place(key kv.Key, parts []Part) (pages []kv.KeyedPage, bytes int64, ok bool) {
	for p := range parts {
		if parts[p].Group < 0 || parts[p].Group >= len(t.options.Pages) {
			return pages, bytes, false
		}
		t.mu.Lock()
		page, fresh := t.put(key, parts[p].Group)
		t.mu.Unlock()
		if !fresh {
			return pages, bytes, false
		}
		pages = append(pages, kv.KeyedPage{Key: key, Group: parts[p].Group, Page: page})
		parts[p].Pieces = t.options.Memory(parts[p].Group, page)
		if size(parts[p].Pieces) != parts[p].Bytes {
			return pages, bytes, false // of another model, or another program's
		}
		bytes += parts[p].Bytes
	}
	return pages, bytes, true
}

// spread tells of pages that were filled.
func (t *Tier) spread(pages []kv.KeyedPage) {
	if t.options.Spread == nil {
		return
	}
	for _, p := range pages {
		t.options.Spread(p.Group, p.Page)
	}
}

// keep ends the reading of a key, with its pages filled or not, and reports whether it is there; t.mu is held.
func (t *Tier) keep(key kv.Key, pages []kv.KeyedPage, ok bool) bool {
	if len(pages) == 0 {
		return false
	}
	t.host.Pin(key)
	for _, p := range pages {
		t.filled(key, p.Group)
	}
	if !ok {
		t.host.Drop(key)
		return false
	}
	t.host.Unpin(key)
	return true
}

// readFrom reads a key from a store.
func (t *Tier) readFrom(from Origin, s Store, key kv.Key) bool {
	began, bytes, pages := time.Now(), int64(0), []kv.KeyedPage(nil)
	ok, err := s.Read(key, func(parts []Part) (ok bool) {
		pages, bytes, ok = t.place(key, parts)
		return ok
	})
	if ok {
		t.spread(pages)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.stats.Damaged++
	}
	t.errors[from] = err
	if !t.keep(key, pages, ok) {
		return false
	}
	t.origin[key] = from
	t.speed[from].note(bytes, time.Since(began).Seconds())
	t.stats.Read[from] += bytes
	return true
}

func size(pieces [][]byte) (n int64) {
	for _, p := range pieces {
		n += int64(len(p))
	}
	return n
}

// write gives stores what waits to be written, until the tier closes.
func (t *Tier) write() {
	for {
		select {
		case <-t.closing:
			return
		case key := <-t.writes:
			t.writeKey(key)
		}
	}
}

// writeKey gives stores what host memory has under a key, which is pinned.
func (t *Tier) writeKey(key kv.Key) {
	t.mu.Lock()
	pages, _ := t.host.Find(key)
	empty := slices.Clone(t.empty[key])
	t.mu.Unlock()
	var parts []Part
	for group := range t.options.Pages {
		if pages[group] >= 0 && !slices.Contains(empty, group) {
			pieces := t.options.Memory(group, pages[group])
			parts = append(parts, Part{Group: group, Bytes: size(pieces), Pieces: pieces})
		}
	}
	for i, s := range t.options.Stores {
		written, err := s.Write(key, parts)
		t.mu.Lock()
		t.errors[i] = err
		t.stats.Written[i] += written
		if err != nil {
			t.stats.Failed++
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.host.Unpin(key)
	if len(t.origin) > 4*t.capacity() {
		maps.DeleteFunc(t.origin, func(key kv.Key, _ Origin) bool {
			_, ok := t.host.Find(key)
			return !ok
		})
	}
}

// capacity is how many keys host memory can have.
func (t *Tier) capacity() (n int) {
	for _, pages := range t.options.Pages {
		n += pages
	}
	return n
}

// Errors is what the last call of each store ended with; nil where it went well.
func (t *Tier) Errors() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]error(nil), t.errors...)
}
