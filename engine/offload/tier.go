// Package offload keeps pages of the KV cache that have left the device: in host memory, and from there in stores such as a folder on a disk or one that servers share. Pages
// are named by what they hold (kv.Key), so that a store may be another process's, or an earlier one's.
//
//	device ──Put──► host memory ──writers──► stores
//	  ▲                 │  ▲                    │
//	  └──── Find ───────┘  └────── Fetch ───────┘
//
// The engine's goroutine never waits for a store: writes are dropped where too many wait, and a request that waits for a Fetch does so outside of the queue.
package offload

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
)

// Options are a tier's settings.
type Options struct {
	Pages  []int                                // of host memory, by cache group
	Memory func(group int, page int32) [][]byte // where a page of host memory lies; nil without stores and peers
	Spread func(group int, page int32)          // called when a page of host memory has been filled from elsewhere; nil: nothing is to be done then
	Stores []Store                              // the nearest first; the Tier closes them
	Wake   func()                               // called when a Fetch has ended
}

// Stats counts what has happened.
type Stats struct {
	Pages, Used int // of host memory, of the main group

	Read, Written []int64 // bytes, by store
	Dropped       int64   // nodes that were not written, since too many waited
	Failed        int64   // writes that failed, as when a disk is full
	Damaged       int64   // what was read and was not whole

	Sent     int64 // bytes, to peers
	Received int64 // from them
	Expired  int64 // leases that nobody gave back
}

// Tier is host memory and the stores behind it.
type Tier struct {
	options Options

	mu      sync.Mutex
	host    *kv.Host
	origin  map[kv.Key]Origin        // of keys that were fetched and not used since
	filling map[kv.Key]chan struct{} // closed when what is being read is there
	empty   map[kv.Key][]int         // groups whose pages Put gave, and that are not filled
	stats   Stats
	speed   []speed       // by store
	errors  []error       // the last of each store; nil: it works
	arrived chan struct{} // closed when pages have come to host memory, and made anew
	leases  map[kv.Key]lease
	leasing int                   // keys
	prompts map[kv.Key]*computing // of leases to come

	writes  chan kv.Key
	fetches chan *Fetch
	closing chan struct{}
	working sync.WaitGroup
	peers   atomic.Int32 // fetches from them
}

const (
	waitingWrites = 4096 // keys
	writers       = 2
	readers       = 4
)

// New is an empty tier.
func New(o Options) *Tier {
	t := &Tier{
		options: o, host: kv.NewHost(o.Pages), origin: map[kv.Key]Origin{}, filling: map[kv.Key]chan struct{}{}, empty: map[kv.Key][]int{},
		speed: make([]speed, len(o.Stores)), errors: make([]error, len(o.Stores)),
		writes: make(chan kv.Key, waitingWrites), fetches: make(chan *Fetch, 1024), closing: make(chan struct{}), arrived: make(chan struct{}), leases: map[kv.Key]lease{}, prompts: map[kv.Key]*computing{},
	}
	t.stats.Read, t.stats.Written = make([]int64, len(o.Stores)), make([]int64, len(o.Stores))
	if o.Memory == nil {
		return t
	}
	for range writers {
		t.working.Go(t.write)
	}
	for range readers {
		t.working.Go(t.read)
	}
	return t
}

// Put is the page of host memory for a key's page of a group. fresh says that it has to be filled; then it is pinned until Filled. It is -1 where there is no room.
func (t *Tier) Put(key kv.Key, group int) (page int32, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.filling[key] != nil {
		return -1, false
	}
	return t.put(key, group)
}

// put is Put with t.mu held.
func (t *Tier) put(key kv.Key, group int) (page int32, fresh bool) {
	if page, fresh = t.host.Put(key, group); fresh {
		t.host.Pin(key)
		t.empty[key] = append(t.empty[key], group)
	}
	return page, fresh
}

// Filled says that the contents of pages that Put gave are there, and has stores given them. Of a page, only Key and Group are asked for.
func (t *Tier) Filled(pages []kv.KeyedPage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(pages) - 1; i >= 0; i-- {
		t.filled(pages[i].Key, pages[i].Group)
	}
	t.arrive()
	if len(t.options.Stores) == 0 {
		return
	}
	for _, p := range pages {
		if t.host.Pins(p.Key) > 0 {
			continue // its write is waiting, or more of it is to come
		}
		select {
		case t.writes <- p.Key:
			t.host.Pin(p.Key)
		default:
			t.stats.Dropped++
		}
	}
}

// filled ends the pin of a page that Put gave.
func (t *Tier) filled(key kv.Key, group int) {
	t.settle(key, group)
	t.host.Unpin(key)
}

// Cancel gives back pages that Put gave and that will not be filled.
func (t *Tier) Cancel(pages []kv.KeyedPage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range pages {
		t.settle(p.Key, p.Group)
		t.host.Cancel(p.Key, p.Group)
	}
}

// settle takes a page from those that are to be filled.
func (t *Tier) settle(key kv.Key, group int) {
	left := slices.DeleteFunc(t.empty[key], func(g int) bool { return g == group })
	if t.empty[key] = left; len(left) == 0 {
		delete(t.empty, key)
	}
}

// Find is the pages of host memory that a key has, whole ones.
func (t *Tier) Find(key kv.Key) (kv.HostPages, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.filling[key] != nil {
		return kv.NoHostPages, false
	}
	return t.host.Find(key)
}

// Use pins keys whose pages are copied to the device until Used, and says where each came from. A key that has gone meanwhile is not there: ok is false then, and none is pinned.
func (t *Tier) Use(keys []kv.Key, origins []Origin) (_ []Origin, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if _, ok := t.host.Find(key); !ok || t.filling[key] != nil {
			return origins, false
		}
	}
	for _, key := range keys {
		from, ok := t.origin[key]
		if !ok {
			from = Memory
		}
		delete(t.origin, key)
		origins = append(origins, from)
		t.host.Pin(key)
	}
	return origins, true
}

// Used ends the Use of keys, which are then the last used, their beginning the very last.
func (t *Tier) Used(keys []kv.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(keys) - 1; i >= 0; i-- {
		t.host.Unpin(keys[i])
	}
}

// Stats is what has happened so far.
func (t *Tier) Stats(main int) Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Read, s.Written = append([]int64(nil), s.Read...), append([]int64(nil), s.Written...)
	s.Pages, s.Used = t.host.Total(main), t.host.Used(main)
	return s
}

// Close ends what is under way: reads at once, writes that wait within a time.
func (t *Tier) Close(patience time.Duration) error {
	t.mu.Lock()
	for _, l := range t.leases {
		l.end.Stop()
	}
	t.mu.Unlock()
	deadline := time.Now().Add(patience)
	for len(t.writes) > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	close(t.closing)
	t.working.Wait()
	var err error
	for _, s := range t.options.Stores {
		if failed := s.Close(); err == nil {
			err = failed
		}
	}
	return err
}
