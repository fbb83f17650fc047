// Package policy chooses the replica of a request. It is numbers only: the router and the simulation (internal/simulate) ask the same code.
package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Replica is a replica as a choice sees it.
type Replica struct {
	Queue  float64 // s until it would begin with a new prompt, as it reports or as what was sent there is priced
	Token  float64 // s that it takes for a token of a prompt
	Held   int     // tokens of the prompt that it has cached
	Active int     // requests that were sent there and have not ended
	Keys   int     // of all prompts that it is known to hold
}

// Request is what is chosen for.
type Request struct {
	Tokens  int    // of the prompt
	Session uint64 // hash of what the client calls its session; 0: it does not
	Names   []uint64
}

// Policy chooses one of the replicas, of which there is at least one. It is used by one goroutine at a time.
type Policy interface {
	Choose(q *Request, all []Replica) int
}

// names are the policies, under the names that SGLang's router and vLLM's have for them.
var names = []struct {
	name, other string
	make        func() Policy
}{
	{"cache_aware", "prefixaware", func() Policy { return &cacheAware{} }},
	{"least_load", "", func() Policy { return &leastLoad{} }},
	{"round_robin", "roundrobin", func() Policy { return &roundRobin{} }},
	{"power_of_two", "", func() Policy { return powerOfTwo{} }},
	{"random", "", func() Policy { return random{} }},
	{"session", "consistent_hash", func() Policy { return &session{} }},
}

// Names lists the policies.
func Names() (all []string) {
	for _, n := range names {
		all = append(all, n.name)
	}
	return all
}

// New makes the policy of a name.
func New(name string) (Policy, error) {
	for _, n := range names {
		if name == n.name || name == n.other && name != "" {
			return n.make(), nil
		}
	}
	return nil, fmt.Errorf("policy: there is no policy %q; choose one of %s", name, strings.Join(Names(), ", "))
}

// recomputed is what a token that is computed again counts for, in tokens: beside its own time it takes room in the cache, where it drives out what others would find. In
// simulations of Mooncake's conversations before four replicas 1 found 84 % of what one server with all of the memory finds, and 3 found 93 %, with no longer times to first tokens.
const recomputed = 3

// cacheAware chooses the replica that would have a first token soonest: what is waiting there, and what is left of the prompt to compute.
type cacheAware struct{ turn roundRobin }

// Choose implements Policy.
func (p *cacheAware) Choose(q *Request, all []Replica) int {
	return p.turn.least(all, func(r *Replica) float64 { return r.Queue + recomputed*r.Token*float64(q.Tokens-r.Held) })
}

// leastLoad chooses the replica with the shortest queue.
type leastLoad struct{ turn roundRobin }

// Choose implements Policy.
func (p *leastLoad) Choose(_ *Request, all []Replica) int {
	return p.turn.least(all, func(r *Replica) float64 { return r.Queue })
}

// roundRobin takes replicas by turns.
type roundRobin struct{ next int }

// Choose implements Policy.
func (p *roundRobin) Choose(_ *Request, all []Replica) int {
	i := p.next % len(all)
	p.next = i + 1
	return i
}

// alike is by which part a cost may be above the least and still count as equal: prices are not known any better.
const alike = 0.02

// least is the replica of least cost; of those alike the one with the fewest requests, then the one that holds least, so that all memory is used, then by turns.
func (p *roundRobin) least(all []Replica, cost func(*Replica) float64) int {
	lowest := math.Inf(1)
	for i := range all {
		lowest = min(lowest, cost(&all[i]))
	}
	start := p.next % len(all)
	p.next = start + 1
	best := -1
	for n := range all {
		i := (start + n) % len(all)
		r := &all[i]
		if cost(r) > lowest*(1+alike) {
			continue
		}
		if best < 0 || r.Active < all[best].Active || r.Active == all[best].Active && r.Keys < all[best].Keys {
			best = i
		}
	}
	return best
}

// powerOfTwo takes the shorter queue of two drawn replicas.
type powerOfTwo struct{}

// Choose implements Policy.
func (powerOfTwo) Choose(_ *Request, all []Replica) int {
	a, b := rand.IntN(len(all)), rand.IntN(len(all))
	if all[b].Queue < all[a].Queue || all[b].Queue == all[a].Queue && all[b].Active < all[a].Active {
		return b
	}
	return a
}

// random draws one.
type random struct{}

// Choose implements Policy.
func (random) Choose(_ *Request, all []Replica) int { return rand.IntN(len(all)) }

// session takes the same replica for a session while it is there (rendezvous hashing: when one comes or goes, only its own sessions move), and
// the shortest queue for requests without one.
type session struct{ other leastLoad }

// Choose implements Policy.
func (p *session) Choose(q *Request, all []Replica) int {
	if q.Session == 0 || len(q.Names) != len(all) {
		return p.other.Choose(q, all)
	}
	return Rendezvous(q.Session, q.Names)
}

// Rendezvous is the place of the name that a key belongs to.
func Rendezvous(key uint64, names []uint64) int {
	weight := func(name uint64) uint64 {
		z := key ^ name*0x9e3779b97f4a7c15 // splitmix64
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	return slices.Index(names, slices.MaxFunc(names, func(a, b uint64) int {
		if weight(a) < weight(b) {
			return -1
		}
		return 1
	}))
}
