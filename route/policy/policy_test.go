package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestChoices: each policy does what its name says, for any replicas.
func TestChoices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Replica {
			return Replica{Queue: rapid.Float64Range(0, 10).Draw(t, "queue"), Token: 0.001, Held: rapid.IntRange(0, 1000).Draw(t, "held"), Active: rapid.IntRange(0, 3).Draw(t, "active")}
		}), 1, 8).Draw(t, "replicas")
		q := &Request{Tokens: 1000, Session: rapid.Uint64Min(1).Draw(t, "session")}
		for i := range all {
			q.Names = append(q.Names, uint64(i)+77)
		}
		cost := func(i int) float64 { return all[i].Queue + recomputed*0.001*float64(q.Tokens-all[i].Held) }
		for _, name := range Names() {
			p, err := New(name)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[int]int{}
			for range 2 * len(all) {
				i := p.Choose(q, all)
				if i < 0 || i >= len(all) {
					t.Fatalf("%s chose replica %d of %d", name, i, len(all))
				}
				seen[i]++
				for j := range all {
					if name == "cache_aware" && cost(i) > (1+2*alike)*cost(j) || name == "least_load" && all[i].Queue > (1+2*alike)*all[j].Queue {
						t.Fatalf("%s chose %+v of %+v", name, all[i], all)
					}
				}
			}
			if name == "round_robin" && (len(seen) != len(all) || seen[0] != 2) || name == "session" && len(seen) != 1 {
				t.Fatalf("%s of %d replicas chose %v", name, len(all), seen)
			}
		}
	})
	if _, err := New("best"); err == nil {
		t.Error("there is a policy best")
	}
}

// TestAlike: replicas alike get requests by what they have, then by what they hold, then by turns; shorter of two queues, mostly.
func TestAlike(t *testing.T) {
	p, _ := New("cache_aware")
	q := &Request{Tokens: 100}
	all := []Replica{{Token: 1, Active: 1}, {Token: 1, Keys: 5}, {Token: 1.01, Keys: 3}, {Token: 2}}
	if i := p.Choose(q, all); i != 2 {
		t.Errorf("replica %d was chosen", i)
	}
	same, seen := make([]Replica, 3), make([]int, 3)
	for range 30 {
		seen[p.Choose(q, same)]++
	}
	if slices.Min(seen) != 10 {
		t.Errorf("equal replicas got %v", seen)
	}
	two, _ := New("power_of_two")
	clear(seen)
	for range 3000 {
		seen[two.Choose(q, []Replica{{Queue: 3}, {Queue: 1}, {Queue: 2}})]++
	}
	if !(seen[1] > seen[2] && seen[2] > seen[0]) {
		t.Errorf("the longest queue got %d, the shortest %d, the other %d", seen[0], seen[1], seen[2])
	}
}

// TestRendezvous: when a replica goes, only its sessions move, and all get about as many.
func TestRendezvous(t *testing.T) {
	names := []uint64{11, 22, 33, 44}
	count := map[uint64]int{}
	for key := range uint64(8000) {
		was := names[Rendezvous(key, names)]
		count[was]++
		if now := names[:3][Rendezvous(key, names[:3])]; was != 44 && now != was {
			t.Fatalf("session %d moved from %d to %d", key, was, now)
		}
	}
	for name, n := range count {
		if n < 1700 || n > 2300 {
			t.Errorf("replica %d has %d of 8000 sessions", name, n)
		}
	}
}
