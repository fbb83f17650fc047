package offload

import (
	"slices"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
)

// lease is keys that are kept for another server until it says that it has them, or does not come in time.
type lease struct {
	keys []kv.Key
	end  *time.Timer
}

// leased is the part of host memory, one in so many, that leases may take.
const leased = 2

// Lease keeps what host memory has of keys for so long, or until Release; less of it where there are too many leases. name is nobody else's.
func (t *Tier) Lease(name kv.Key, keys []kv.Key, long time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.leases[name]; ok {
		return // of another answer to the same request
	}
	if p := t.prompts[name]; p != nil && p.released {
		return // the other server was faster than the prompt's end
	}
	var l lease
	for _, key := range keys {
		if _, ok := t.host.Find(key); !ok || t.filling[key] != nil || t.leasing >= t.options.Pages[0]/leased {
			break
		}
		t.host.Pin(key)
		l.keys = append(l.keys, key)
		t.leasing++
	}
	if len(l.keys) > 0 {
		l.end = time.AfterFunc(long, func() { t.end(name, true) })
		t.leases[name] = l
	}
}

// Release gives a lease back.
func (t *Tier) Release(name kv.Key) { t.end(name, false) }

// end lets go of a lease's keys.
func (t *Tier) end(name kv.Key, expired bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.leases[name]
	if !ok {
		if p := t.prompts[name]; p != nil {
			p.released = true
		}
		return
	}
	delete(t.leases, name)
	l.end.Stop()
	for i := len(l.keys) - 1; i >= 0; i-- {
		t.host.Unpin(l.keys[i])
	}
	t.leasing -= len(l.keys)
	if expired {
		t.stats.Expired++
	}
}

// computing is a prompt that is computed for another server.
type computing struct {
	answers  int      // under way
	last     []kv.Key // whose states come with the end
	released bool     // the other server has all that it wants
}

// Expect says that a prompt is being computed which will have a lease of that name, or none: Expected ends it. The pages of the keys last are whole with the end.
func (t *Tier) Expect(name kv.Key, last []kv.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.prompts[name]
	if p == nil {
		p = &computing{last: last}
		t.prompts[name] = p
	}
	p.answers++
}

// Expected ends an Expect, after Lease.
func (t *Tier) Expected(name kv.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.prompts[name]
	if p == nil {
		return
	}
	if p.answers--; p.answers == 0 {
		delete(t.prompts, name)
		t.arrive()
	}
}

// arrive wakes those who wait in Await; t.mu is held.
func (t *Tier) arrive() {
	close(t.arrived)
	t.arrived = make(chan struct{})
}

// Await is the pages of host memory that a key has, whole ones, as soon as there are some, within a time, and until gone is closed. They stay until release. computing says that
// the prompt of the lease is being computed, and it is worth waiting on; where that has ended meanwhile Await waits no longer.
func (t *Tier) Await(key, lease kv.Key, patience time.Duration, gone <-chan struct{}) (parts []Part, release func(), computing bool) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		t.mu.Lock()
		pages, ok := t.host.Find(key)
		whole := ok && t.filling[key] == nil && len(t.empty[key]) == 0
		p := t.prompts[lease]
		if whole && (p == nil || !slices.Contains(p.last, key)) {
			t.host.Pin(key)
			t.mu.Unlock()
			for group := range t.options.Pages {
				if pages.Has(group) {
					pieces := t.options.Memory(group, pages[group])
					parts = append(parts, Part{Group: group, Bytes: size(pieces), Pieces: pieces})
				}
			}
			return parts, func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.host.Unpin(key)
				for _, p := range parts {
					t.stats.Sent += p.Bytes
				}
			}, false
		}
		arrived := t.arrived
		t.mu.Unlock()
		if computing && p == nil && !ok {
			return nil, func() {}, false
		}
		computing = p != nil
		select {
		case <-arrived:
		case <-late.C:
			return nil, func() {}, computing
		case <-gone:
			return nil, func() {}, false
		case <-t.closing:
			return nil, func() {}, false
		}
	}
}
