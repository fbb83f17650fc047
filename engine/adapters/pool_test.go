package adapters

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func same(uint64) float64 { return 1 }

func TestTake(t *testing.T) {
	p := New(2, same)
	a, loads, ok := p.Take([]uint64{1}, false, nil, nil)
	if !ok || len(loads) != 1 {
		t.Fatalf("slots %v, loads %v, %t", a, loads, ok)
	}
	b, loads, ok := p.Take([]uint64{2}, false, nil, nil)
	if !ok || len(loads) != 1 || loads[0].Slot == a[0] {
		t.Fatalf("slots %v, loads %v, %t", b, loads, ok)
	}
	if _, _, ok := p.Take([]uint64{3}, false, nil, nil); ok {
		t.Fatal("a third adapter found room in two slots that are held")
	}
	if _, _, ok := p.Take([]uint64{1, 3}, false, nil, nil); ok {
		t.Fatal("one of two adapters found room")
	}
	p.Release(a)
	p.Release(b)
	if _, _, ok := p.Take([]uint64{3}, true, nil, nil); ok {
		t.Fatal("an adapter in no slot was found in one")
	}
	c, loads, ok := p.Take([]uint64{3}, false, nil, nil)
	if !ok || len(loads) != 1 || c[0] != a[0] {
		t.Fatalf("slot %v; %v, which was used before the other, should go", c, a)
	}
	if _, loads, ok = p.Take([]uint64{2}, false, nil, nil); !ok || len(loads) != 0 {
		t.Fatalf("adapter 2 was evicted: %v, %t", loads, ok)
	}
}

// TestEvictionByPrice: of two adapters the one goes that is cheaper to load again, or was used less, and not the one that was used last longest ago.
func TestEvictionByPrice(t *testing.T) {
	for name, c := range map[string]struct {
		price func(id uint64) float64
		uses  []uint64
		goes  uint64
	}{
		"same":     {same, []uint64{1, 2}, 1},
		"cheaper":  {func(id uint64) float64 { return map[uint64]float64{1: 80, 2: 5}[id] }, []uint64{1, 2}, 2},
		"less":     {same, []uint64{1, 1, 1, 2}, 2},
		"both":     {func(id uint64) float64 { return map[uint64]float64{1: 10, 2: 80}[id] }, []uint64{1, 1, 1, 1, 2}, 1},
		"no price": {func(uint64) float64 { return 0 }, []uint64{1, 2}, 1},
	} {
		p := New(2, c.price)
		for _, id := range c.uses {
			held, _, _ := p.Take([]uint64{id}, false, nil, nil)
			p.Release(held)
		}
		p.Take([]uint64{3}, false, nil, nil)
		if p.find(c.goes) >= 0 {
			t.Errorf("%s: adapter %d was to be evicted", name, c.goes)
		}
	}
}

// TestPriceBeatsRecency: on requests for a hundred adapters of 5 to 320 MB, of which some are asked for more than others, and others from the middle on,
// evicting by price loads fewer bytes than evicting what was used last longest ago.
func TestPriceBeatsRecency(t *testing.T) {
	const adapters, slots, requests = 100, 16, 20000
	size := func(id uint64) float64 { return float64(int(5) << (id % 7)) }
	trace := make([]uint64, requests)
	r := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(r, 1.1, 4, adapters-1)
	for i := range trace {
		trace[i] = 1 + (zipf.Uint64()*37+uint64(i/(requests/2))*41)%adapters
	}
	p := New(slots, size)
	var byPrice, byRecency float64
	var recent []uint64
	for _, id := range trace {
		held, loads, _ := p.Take([]uint64{id}, false, nil, nil)
		p.Release(held)
		if len(loads) > 0 {
			byPrice += size(id)
		}
		if i := slices.Index(recent, id); i >= 0 {
			recent = slices.Delete(recent, i, i+1)
		} else {
			byRecency += size(id)
		}
		if recent = append(recent, id); len(recent) > slots {
			recent = recent[1:]
		}
	}
	t.Logf("%.0f MB loaded by price, %.0f by recency: %.2f", byPrice, byRecency, byPrice/byRecency)
	if byPrice > 0.75*byRecency {
		t.Errorf("%.0f MB were loaded, and %.0f when what was used last longest ago goes", byPrice, byRecency)
	}
}

func TestAge(t *testing.T) {
	p := New(1, same)
	held, _, _ := p.Take([]uint64{1}, false, nil, nil)
	more, _, ok := p.Take([]uint64{1}, false, nil, nil)
	if !ok {
		t.Fatal("a slot was closed though no request waits")
	}
	p.age(1, true, []uint64{2})
	if _, _, ok := p.Take([]uint64{1}, false, nil, nil); ok {
		t.Fatal("a closed slot took a request")
	}
	p.age(0, false, nil)
	if held, _, ok = p.Take([]uint64{1}, false, held, nil); !ok {
		t.Fatal("the slot stayed closed though no request waits")
	}
	p.age(1, true, []uint64{2})
	p.Release(held)
	p.Release(held)
	p.Release(more)
	if _, _, ok := p.Take([]uint64{1}, true, nil, nil); ok {
		t.Fatal("an adapter came back into a slot that was closed for another")
	}
	if _, _, ok := p.Take([]uint64{2}, false, nil, nil); !ok {
		t.Fatal("the adapter that waited found no room")
	}
}

// holder is a request of the tests below.
type holder struct {
	n     int64
	ids   []uint64
	slots []int
	at    int64 // when it came; of one that runs when it ends
}

// TestRandom holds that a held slot keeps its adapter and that what is loaded is what was not there.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := New(4, same)
	var all []holder
	in := map[int]uint64{}
	for step := range 10000 {
		switch {
		case r.IntN(2) == 0 && len(all) > 0:
			i := r.IntN(len(all))
			p.Release(all[i].slots)
			all = append(all[:i], all[i+1:]...)
		default:
			ids := someIDs(r, 9)
			slots, loads, ok := p.Take(ids, r.IntN(5) == 0, nil, nil)
			p.age(r.IntN(3), r.IntN(2) == 0, ids)
			if !ok {
				continue
			}
			for _, l := range loads {
				in[l.Slot] = l.ID
			}
			all = append(all, holder{ids: ids, slots: slots})
		}
		for _, h := range all {
			for i, id := range h.ids {
				if in[h.slots[i]] != id {
					t.Fatalf("step %d: slot %d has adapter %d and is held for %d", step, h.slots[i], in[h.slots[i]], id)
				}
			}
		}
	}
}

// someIDs is one or two of n adapters; some are asked for much more often than others.
func someIDs(r *rand.Rand, n int) []uint64 {
	one := func() uint64 { return uint64(1 + r.IntN(1+r.IntN(n))) }
	ids := []uint64{one()}
	if other := one(); other != ids[0] && r.IntN(3) == 0 {
		ids = append(ids, other)
	}
	return ids
}

// TestFair: however the requests of others come, and though some of them want two slots, the request that has waited longest gets its slots within
// the time of one request after the aging bound, and none waits for ever.
func TestFair(t *testing.T) {
	const aging, longest = 50, 40
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 7))
		slots := 1 + r.IntN(4)
		p := New(slots, func(id uint64) float64 { return float64(id) })
		var q Queue
		came := int64(0)
		var running, waiting []holder
		oldest, since := int64(-1), int64(0) // the number of the request that has waited longest, and since when it is that and overdue
		for now := int64(0); now < 2000 || len(waiting) > 0; now++ {
			running = slices.DeleteFunc(running, func(h holder) bool {
				if h.at > now {
					return false
				}
				p.Release(h.slots)
				return true
			})
			for range r.IntN(3) {
				if ids := someIDs(r, 12); now < 2000 && len(ids) <= slots {
					came++
					waiting = append(waiting, holder{n: came, ids: ids, at: now})
				}
			}
			q.Begin(p)
			waiting = slices.DeleteFunc(waiting, func(h holder) bool {
				got, _, ok := q.Take(h.ids, now-h.at >= aging, nil, nil)
				if ok {
					running = append(running, holder{ids: h.ids, slots: got, at: now + 1 + r.Int64N(longest)})
				}
				return ok
			})
			q.End()
			if len(waiting) == 0 {
				continue
			}
			first := waiting[0]
			if first.n != oldest {
				oldest, since = first.n, max(now, first.at+aging)
			}
			if now > since+longest {
				t.Fatalf("seed %d, %d slots: at %d the oldest request, for %v since %d, still waits", seed, slots, now, first.ids, first.at)
			}
		}
	}
}
