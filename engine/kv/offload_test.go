package kv

import (
	"math/rand/v2"
	"testing"
)

// contentsOf is what pages hold, by group: the key of the node that they were written for.
type contentsOf struct {
	device [][]Key
	host   [][]Key
}

// TestOffloadInterleavings: in random interleavings of sequences over a small cache and a small host memory, with full layers, a window and states, every page that a sequence goes on
// from has the contents that its tokens ask for, wherever they were kept meanwhile.
func TestOffloadInterleavings(t *testing.T) {
	brought := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 20))
		const size = 4
		groups := []Group{{Pages: 14 + rng.IntN(10)}}
		if rng.IntN(2) == 0 {
			groups = append(groups, Group{Pages: 12 + rng.IntN(8), Window: 1 + rng.IntN(11)})
		}
		if rng.IntN(2) == 0 {
			groups = append(groups, Group{Pages: 5 + rng.IntN(4), Recurrent: true})
		}
		index := Radix
		if rng.IntN(2) == 0 {
			index = HashBlocks
		}
		m, err := New(Options{PageSize: size, Groups: groups, Index: index})
		if err != nil {
			t.Fatal(err)
		}
		var mem contentsOf
		var hostPages []int
		for _, g := range groups {
			mem.device, mem.host = append(mem.device, make([]Key, g.Pages)), append(mem.host, make([]Key, 9+rng.IntN(20)))
			hostPages = append(hostPages, len(mem.host[len(mem.host)-1]))
		}
		host := NewHost(hostPages)
		m.Offload(Key{1}, func(key Key, group int, page int32) {
			if got := mem.device[group][page]; got != key {
				t.Fatalf("seed %d: page %d of group %d leaves as %x and holds %x", seed, page, group, key[:4], got[:4])
			}
			if to, fresh := host.Put(key, group); fresh {
				mem.host[group][to] = key
			}
		})
		texts := make([][]int32, 6)
		for i := range texts {
			texts[i] = make([]int32, 24+rng.IntN(12))
			for k := range texts[i] {
				texts[i][k] = int32(k/8*(1+i%3) + i%2)
			}
		}
		for range 60 {
			text, s := texts[rng.IntN(len(texts))], &Seq{}
			keys := m.Keys(nil, Salt{}, text)
			promised, _ := m.Importable(Salt{}, text, keys, host.Find)
			m.Open(s, Salt{}, text)
			if n := promised - s.Pages(); n > 0 {
				var pinned []Key
				for _, key := range keys[s.Pages():promised] {
					if _, ok := host.Find(key); ok {
						host.Pin(key)
						pinned = append(pinned, key)
					}
				}
				missing, ok := m.Import(s, text, n, nil)
				if !ok && m.Available()[0] >= n+2 && len(groups) == 1 {
					t.Fatalf("seed %d: %d pages are not imported, and %d are available", seed, n, m.Available()[0])
				}
				for _, p := range missing {
					from, _ := host.Find(p.Key)
					if !from.Has(p.Group) || mem.host[p.Group][from[p.Group]] != p.Key {
						t.Fatalf("seed %d: a page of group %d was promised, and host memory does not have it", seed, p.Group)
					}
					mem.device[p.Group][p.Page] = p.Key
					brought++
				}
				for _, key := range pinned {
					host.Unpin(key)
				}
			}
			mem.check(t, seed, m, s, keys)
			for s.Len() < len(text)-1 {
				n := min(1+rng.IntN(9), len(text)-1-s.Len())
				copies, ok := m.Append(s, n, nil)
				if !ok {
					break
				}
				for _, c := range copies {
					mem.device[c.Group][c.To] = mem.device[c.Group][c.From]
				}
				mem.write(m, s, keys)
				m.Publish(s, text)
				mem.check(t, seed, m, s, keys)
				if rng.IntN(2) == 0 {
					m.Snapshot(s, text)
				}
				if rng.IntN(20) == 0 {
					break
				}
			}
			if err := m.Check(s); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			m.Free(s)
			if err := m.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := host.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	if brought < 1000 {
		t.Errorf("%d pages were brought back; the test has little to say", brought)
	}
}

// write has a sequence's pages hold what its tokens say: whole pages their keys, others none, and its state the key of what it is a state of.
func (mem *contentsOf) write(m *Manager, s *Seq, keys []Key) {
	for g := range s.tables {
		t := &s.tables[g]
		if m.groups[g].state {
			mem.device[g][t.pages[0]] = stateKey(s.length, m.pageSize, keys)
			continue
		}
		for i := t.first; i < len(t.pages); i++ {
			if (i+1)*m.pageSize <= s.length && !m.groups[g].shared(t.pages[i]) {
				mem.device[g][t.pages[i]] = keys[i]
			}
		}
	}
}

func stateKey(length, size int, keys []Key) Key {
	if length%size != 0 || length == 0 {
		return Key{2, byte(length)}
	}
	return keys[length/size-1]
}

// check holds what the next token of a sequence looks at to its tokens.
func (mem *contentsOf) check(t *testing.T, seed uint64, m *Manager, s *Seq, keys []Key) {
	t.Helper()
	for g := range s.tables {
		table := &s.tables[g]
		if m.groups[g].state {
			if len(table.pages) > 0 && mem.device[g][table.pages[0]] != stateKey(s.length, m.pageSize, keys) {
				t.Fatalf("seed %d: a sequence of %d tokens goes on from another state", seed, s.length)
			}
			continue
		}
		for i := m.groups[g].firstNeeded(s.length, m.pageSize); i < s.length/m.pageSize; i++ {
			if got := mem.device[g][table.pages[i]]; got != keys[i] {
				t.Fatalf("seed %d: page %d of group %d of a sequence of %d tokens holds %x and not %x", seed, i, g, s.length, got[:4], keys[i][:4])
			}
		}
	}
}

// TestKeys: keys depend on the seed, the salt and all tokens before, and end where a salt is of this process alone.
func TestKeys(t *testing.T) {
	m := func(seed byte) *Manager {
		x, err := New(Options{PageSize: 2, Groups: []Group{{Pages: 4}}, Index: Radix})
		if err != nil {
			t.Fatal(err)
		}
		x.Offload(Key{seed}, func(Key, int, int32) {})
		return x
	}
	text := []int32{1, 2, 3, 4, 5}
	base := m(1).Keys(nil, Salt{}, text)
	if len(base) != 2 {
		t.Fatalf("%d keys of 2 whole pages", len(base))
	}
	for what, keys := range map[string][]Key{
		"seed": m(2).Keys(nil, Salt{}, text), "salt": m(1).Keys(nil, Salt{Own: 7}, text), "first token": m(1).Keys(nil, Salt{}, []int32{9, 2, 3, 4}),
	} {
		if len(keys) != 2 || keys[1] == base[1] {
			t.Errorf("another %s, and the same key", what)
		}
	}
	if keys := m(1).Keys(nil, Salt{Own: Local | 7, From: 2}, text); len(keys) != 1 || keys[0] != base[0] {
		t.Errorf("%d keys of a text with an adapter from its second page on", len(keys))
	}
}
