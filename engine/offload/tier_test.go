package offload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ridge-llm/ridge/engine/kv"
)

// store is a store in memory, of which a part fails.
type store struct {
	mu    sync.Mutex
	files map[kv.Key][]byte
	rng   *rand.Rand
}

func (s *store) Name() string { return "test" }
func (s *store) Close() error { return nil }

func (s *store) Has(key kv.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[key] != nil
}

func (s *store) Read(key kv.Key, into func([]Part) bool) (bool, error) {
	s.mu.Lock()
	data, fails := s.files[key], s.rng.IntN(5) == 0
	s.mu.Unlock()
	parts := []Part{{Group: 0, Bytes: int64(len(data))}}
	if data == nil || !into(parts) {
		return false, nil
	}
	at := 0
	for i, piece := range parts[0].Pieces {
		if fails && i == 1 {
			return false, errors.New("the file is damaged")
		}
		at += copy(piece, data[at:])
	}
	return true, nil
}

func (s *store) Write(key kv.Key, parts []Part) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rng.IntN(5) == 0 {
		return 0, errors.New("the disk is full")
	}
	s.files[key] = bytes.Join(parts[0].Pieces, nil)
	return parts[0].Bytes, nil
}

func testKey(i int) (k kv.Key) {
	binary.LittleEndian.PutUint64(k[:], uint64(i+1))
	return k
}

// TestTier: while one goroutine puts pages and uses them, as the engine does, and others write and read them in a store that fails at times, a page that is found holds what its key
// says, and the account is right at the end.
func TestTier(t *testing.T) {
	const pages, size = 12, 64
	mem := make([][]byte, pages)
	for i := range mem {
		mem[i] = make([]byte, size)
	}
	s := &store{files: map[kv.Key][]byte{}, rng: rand.New(rand.NewPCG(1, 2))}
	woken := make(chan struct{}, 1)
	x := New(Options{Pages: []int{pages}, Stores: []Store{s}, Memory: func(_ int, page int32) [][]byte { return [][]byte{mem[page][:10], mem[page][10:]} }, Wake: func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}})
	rng := rand.New(rand.NewPCG(3, 4))
	found, fetched := 0, 0
	enough := func() bool {
		stats := x.Stats(0)
		return found >= 100 && fetched >= 10 && stats.Failed > 0 && stats.Damaged > 0
	}
	for round, began := 0, time.Now(); round < 3000 || !enough() && time.Since(began) < time.Minute; round++ {
		if round%50 == 0 {
			time.Sleep(time.Millisecond) // the others have something to do
		}
		k := rng.IntN(40)
		if pages, ok := x.Find(testKey(k)); ok {
			origins, ok := x.Use([]kv.Key{testKey(k)}, nil)
			if !ok {
				continue
			}
			pages, _ = x.Find(testKey(k))
			if got := mem[pages[0]]; !bytes.Equal(got, bytes.Repeat([]byte{byte(k)}, size)) {
				t.Fatalf("the page of key %d holds %v", k, got)
			}
			x.Used([]kv.Key{testKey(k)})
			if found++; origins[0] != Memory {
				fetched++
			}
			continue
		}
		if rng.IntN(2) == 0 {
			f := &Fetch{Keys: []kv.Key{testKey(k), testKey(k + 1)}, Bytes: size, PerKey: time.Second, Deadline: time.Now().Add(10 * time.Second)}
			if x.Fetch(f) {
				for !f.Ended() {
					<-woken
				}
			}
			continue
		}
		if page, fresh := x.Put(testKey(k), 0); fresh {
			for i := range mem[page] {
				mem[page][i] = byte(k)
			}
			if rng.IntN(10) == 0 {
				x.Cancel([]kv.KeyedPage{{Key: testKey(k)}})
			} else {
				x.Filled([]kv.KeyedPage{{Key: testKey(k)}})
			}
		}
	}
	stats, all := x.Stats(0), enough()
	if err := x.Close(time.Second); err != nil {
		t.Fatal(err)
	}
	if err := x.host.Check(); err != nil {
		t.Error(err)
	}
	if !all {
		t.Errorf("%d pages were found and %d fetched; %+v", found, fetched, stats)
	}
}

// TestFetchDeadline: who waits for a store that does not answer goes on when computing would have been done, and a store that takes longer than computing is not asked, but now and then: it
// may have become faster.
func TestFetchDeadline(t *testing.T) {
	stuck := &stuckStore{store: store{files: map[kv.Key][]byte{testKey(1): {1}}}, release: make(chan struct{})}
	woken := make(chan struct{}, 4)
	x := New(Options{Pages: []int{4}, Stores: []Store{stuck}, Memory: func(int, int32) [][]byte { return [][]byte{make([]byte, 1)} }, Wake: func() { woken <- struct{}{} }})
	f := &Fetch{Keys: []kv.Key{testKey(1)}, Bytes: 1, PerKey: time.Second, Deadline: time.Now().Add(30 * time.Millisecond)}
	if !x.Fetch(f) {
		t.Fatal("it is not asked for")
	}
	<-woken
	if !f.Ended() {
		t.Error("the fetch has not ended")
	}
	close(stuck.release)
	x.mu.Lock()
	x.speed[0].note(1, 3600)
	x.mu.Unlock()
	dear := &Fetch{Keys: []kv.Key{testKey(2)}, Bytes: 1, PerKey: time.Millisecond, Deadline: time.Now().Add(time.Minute)}
	stuck.mu.Lock()
	stuck.files[testKey(2)] = []byte{1}
	stuck.mu.Unlock()
	x.fetch(dear)
	if _, ok := x.Find(testKey(2)); ok {
		t.Error("what takes an hour to read was read, and computing takes a millisecond")
	}
	if n := stuck.reads.Load(); n != 1 {
		t.Errorf("%d reads; one is of the key that hung", n)
	}
	for range 200 {
		x.fetch(dear)
	}
	if stuck.reads.Load() < 2 {
		t.Error("a store that was slow once is never asked again")
	}
	if err := x.Close(time.Second); err != nil {
		t.Fatal(err)
	}
}

// stuckStore reads nothing before it is released.
type stuckStore struct {
	store
	release chan struct{}
	reads   atomic.Int32
}

func (s *stuckStore) Read(kv.Key, func([]Part) bool) (bool, error) {
	s.reads.Add(1)
	<-s.release
	return false, nil
}

// TestAwait: pages of a prompt that is being computed for another server can be had as soon as each is there, those whose states come with the end not before; who waits is told
// whether that is worth it, and waits no longer than the prompt.
func TestAwait(t *testing.T) {
	mem := make([]byte, 16)
	x := New(Options{Pages: []int{16}, Memory: func(_ int, page int32) [][]byte { return [][]byte{mem[page : page+1]} }, Wake: func() {}})
	defer x.Close(0)
	fill := func(i int) {
		if _, fresh := x.Put(testKey(i), 0); !fresh {
			t.Fatal("no room")
		}
		x.Filled([]kv.KeyedPage{{Key: testKey(i)}})
	}
	await := func(i int, patience time.Duration) (bool, bool) {
		parts, release, computing := x.Await(testKey(i), testKey(100), patience, nil)
		release()
		return len(parts) == 1, computing
	}
	if there, computing := await(0, time.Millisecond); there || computing {
		t.Errorf("before all: %t, %t", there, computing)
	}
	x.Expect(testKey(100), []kv.Key{testKey(2)})
	fill(0)
	if there, _ := await(0, time.Hour); !there {
		t.Error("a page of a prompt that is being computed is not there")
	}
	time.AfterFunc(time.Millisecond, func() { fill(1); fill(2) })
	if there, _ := await(1, time.Hour); !there {
		t.Error("a page that was computed meanwhile is not there")
	}
	if there, computing := await(2, time.Millisecond); there || !computing {
		t.Errorf("a page whose state is to come: %t, %t", there, computing)
	}
	x.Lease(testKey(100), []kv.Key{testKey(0), testKey(1), testKey(2)}, time.Hour)
	x.Expected(testKey(100))
	if there, _ := await(2, time.Hour); !there {
		t.Error("the last page is not there")
	}
	x.Release(testKey(100))
	x.Expect(testKey(101), nil)
	x.Release(testKey(101)) // the other server has all of it before the end
	x.Lease(testKey(101), []kv.Key{testKey(0)}, time.Hour)
	if x.Expected(testKey(101)); x.leasing != 0 || len(x.leases) != 0 {
		t.Errorf("%d keys are leased to nobody", x.leasing)
	}
	x.Expect(testKey(100), nil)
	time.AfterFunc(time.Millisecond, func() { x.Expected(testKey(100)) })
	if there, computing := await(3, time.Hour); there || computing {
		t.Errorf("what a prompt did not have: %t, %t", there, computing)
	}
}

// slowPeer computes for a while.
type slowPeer struct {
	rounds   int
	each     time.Duration
	released int
}

func (p *slowPeer) Read(keys []kv.Key, waiting func() bool, into func(int, []Part) bool) (int, error) {
	for range p.rounds {
		if time.Sleep(p.each); !waiting() {
			return 0, errors.New("nobody waits")
		}
	}
	if !into(0, []Part{{Group: 0, Bytes: 1}}) {
		return 0, nil
	}
	return 1, nil
}

func (p *slowPeer) Release() { p.released++ }

// TestFetchPeer: who waits for a peer waits as long as that computes, and no longer once it says nothing or the request has gone.
func TestFetchPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a busy machine keeps nobody waiting longer
		woken := make(chan struct{}, 4)
		mem := make([]byte, 16)
		x := New(Options{Pages: []int{8}, Memory: func(_ int, page int32) [][]byte { return [][]byte{mem[page : page+1]} }, Wake: func() { woken <- struct{}{} }})
		fetch := func(i int, p *slowPeer) *Fetch {
			f := &Fetch{Keys: []kv.Key{testKey(i)}, Bytes: 1, Deadline: time.Now(), Peer: p}
			if !x.Fetch(f) {
				t.Fatal("it is not asked for")
			}
			return f
		}
		computes := &slowPeer{rounds: 6, each: peerPatience / 5} // longer than the patience in all
		f := fetch(1, computes)
		<-woken
		if _, ok := x.Find(testKey(1)); !ok || !f.Ended() || computes.released != 1 {
			t.Errorf("what a peer computed for long: there %t, ended %t, released %d times", ok, f.Ended(), computes.released)
		}
		began := time.Now()
		silent := &slowPeer{rounds: 1, each: 2 * peerPatience}
		f = fetch(2, silent)
		<-woken
		if took := time.Since(began); !f.Ended() || took < peerPatience/2 || took > 3*peerPatience/2 {
			t.Errorf("a peer that says nothing was waited for %v", took)
		}
		gone := fetch(3, &slowPeer{rounds: 1 << 20, each: time.Millisecond})
		gone.End()
		if err := x.Close(0); err != nil { // waits for the reads
			t.Error(err)
		}
	})
}

// TestFetchLate: fetches whose time is over as they begin end, and tell of it once each.
func TestFetchLate(t *testing.T) {
	const n = 200
	told := make(chan struct{}, 2*n)
	tier := New(Options{Pages: []int{4}, Memory: func(int, int32) [][]byte { return [][]byte{{0}} }, Stores: []Store{&store{files: map[kv.Key][]byte{}, rng: rand.New(rand.NewPCG(1, 2))}}, Wake: func() { told <- struct{}{} }})
	for range n {
		f := &Fetch{Keys: []kv.Key{testKey(1)}, Bytes: 1, PerKey: time.Second, Deadline: time.Now().Add(-time.Second)}
		if !tier.Fetch(f) {
			t.Fatal("there is a store, and nobody else waits")
		}
		<-told
		if !f.Ended() {
			t.Fatal("it is told of before it has ended")
		}
	}
	if err := tier.Close(time.Second); err != nil || len(told) != 0 {
		t.Errorf("%v, told %d times more", err, len(told))
	}
}

// TestFetchBesidePeer: fetches whose time is over while a peer computes what they want keep nobody waiting who reads something else.
func TestFetchBesidePeer(t *testing.T) {
	files := &store{files: map[kv.Key][]byte{}, rng: rand.New(rand.NewPCG(1, 2))}
	mem, told := make([]byte, 16), make(chan struct{}, 16)
	x := New(Options{Pages: []int{8}, Stores: []Store{files}, Memory: func(_ int, page int32) [][]byte { return [][]byte{mem[page : page+1]} }, Wake: func() { told <- struct{}{} }})
	from := &Fetch{Keys: []kv.Key{testKey(1)}, Bytes: 1, Deadline: time.Now(), Peer: &slowPeer{rounds: 1 << 20, each: time.Millisecond}}
	if !x.Fetch(from) {
		t.Fatal("the peer is not asked")
	}
	for claimed := false; !claimed; time.Sleep(time.Millisecond) {
		x.mu.Lock()
		claimed = x.filling[testKey(1)] != nil
		x.mu.Unlock()
	}
	files.mu.Lock()
	files.files[testKey(1)], files.files[testKey(2)] = []byte{1}, []byte{2}
	files.mu.Unlock()
	fetch := func(i int, patience time.Duration) {
		if !x.Fetch(&Fetch{Keys: []kv.Key{testKey(i)}, Bytes: 1, PerKey: time.Hour, Deadline: time.Now().Add(patience)}) {
			t.Fatal("the store is not asked")
		}
	}
	for range readers {
		fetch(1, time.Millisecond)
	}
	for range readers {
		<-told
	}
	fetch(2, 10*time.Second)
	<-told
	if _, ok := x.Find(testKey(2)); !ok {
		t.Error("all readers wait for a peer, and their requests have gone on")
	}
	from.End()
	if err := x.Close(time.Second); err != nil {
		t.Error(err)
	}
}
