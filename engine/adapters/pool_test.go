package adapters

import (
	"math/rand/v2"
	"testing"
)

func TestTake(t *testing.T) {
	p := New(2, 10)
	a, loads, ok := p.Take([]uint64{1}, 0, nil, nil)
	if !ok || len(loads) != 1 {
		t.Fatalf("slots %v, loads %v, %t", a, loads, ok)
	}
	b, loads, ok := p.Take([]uint64{2}, 1, nil, nil)
	if !ok || len(loads) != 1 || loads[0].Slot == a[0] {
		t.Fatalf("slots %v, loads %v, %t", b, loads, ok)
	}
	if _, _, ok := p.Take([]uint64{3}, 2, nil, nil); ok {
		t.Fatal("a third adapter found room in two slots that are held")
	}
	if _, _, ok := p.Take([]uint64{1, 3}, 2, nil, nil); ok {
		t.Fatal("one of two adapters found room")
	}
	p.Release(a, 3)
	p.Release(b, 4)
	c, loads, ok := p.Take([]uint64{3}, 5, nil, nil)
	if !ok || len(loads) != 1 || c[0] != a[0] {
		t.Fatalf("slot %v; %v, which was held before the other, should go", c, a)
	}
	if _, loads, ok = p.Take([]uint64{2}, 6, nil, nil); !ok || len(loads) != 0 {
		t.Fatalf("adapter 2 was evicted: %v, %t", loads, ok)
	}
}

func TestAge(t *testing.T) {
	p := New(1, 10)
	held, _, _ := p.Take([]uint64{1}, 0, nil, nil)
	p.Age(true, 0, 5)
	more, _, ok := p.Take([]uint64{1}, 6, nil, nil)
	if !ok {
		t.Fatal("a slot was closed before the bound")
	}
	p.Age(true, 0, 10)
	if _, _, ok := p.Take([]uint64{1}, 11, nil, nil); ok {
		t.Fatal("a closed slot took a request")
	}
	p.Age(false, 0, 12)
	if held, _, ok = p.Take([]uint64{1}, 12, held, nil); !ok {
		t.Fatal("the slot stayed closed though no request waits")
	}
	p.Age(true, 0, 13)
	p.Release(held, 13)
	p.Release(held, 13)
	p.Release(more, 13)
	if _, _, ok := p.Take([]uint64{2}, 14, nil, nil); !ok {
		t.Fatal("the adapter that waited found no room")
	}
}

// TestRandom holds that a held slot keeps its adapter and that what is loaded is what was not there.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := New(4, 50)
	type holder struct {
		ids   []uint64
		slots []int
	}
	var all []holder
	in := map[int]uint64{}
	for now := range int64(10000) {
		switch {
		case r.IntN(2) == 0 && len(all) > 0:
			i := r.IntN(len(all))
			p.Release(all[i].slots, now)
			all = append(all[:i], all[i+1:]...)
		default:
			ids := []uint64{uint64(1 + r.IntN(9))}
			if other := uint64(1 + r.IntN(9)); other != ids[0] && r.IntN(3) == 0 {
				ids = append(ids, other)
			}
			slots, loads, ok := p.Take(ids, now, nil, nil)
			p.Age(!ok, now-int64(r.IntN(100)), now)
			if !ok {
				continue
			}
			for _, l := range loads {
				in[l.Slot] = l.ID
			}
			all = append(all, holder{ids, slots})
		}
		for _, h := range all {
			for i, id := range h.ids {
				if in[h.slots[i]] != id {
					t.Fatalf("step %d: slot %d has adapter %d and is held for %d", now, h.slots[i], in[h.slots[i]], id)
				}
			}
		}
	}
}
