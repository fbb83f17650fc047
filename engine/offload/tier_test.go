package offload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
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

// TestFetchDeadline: who waits for a store that does not answer goes on when computing would have been done, and a store that takes longer than computing is not asked.
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
	if err := x.Close(time.Second); err != nil {
		t.Fatal(err)
	}
}

// stuckStore reads nothing before it is released.
type stuckStore struct {
	store
	release chan struct{}
}

func (s *stuckStore) Read(kv.Key, func([]Part) bool) (bool, error) {
	<-s.release
	return false, nil
}
