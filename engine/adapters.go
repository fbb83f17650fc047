package engine

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/adapters"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/graph"
)

// Adapter is an adapter as requests name it. Its numbers are in host memory, or on their way there.
type Adapter struct {
	ID   uint64 // not 0, and another one for other numbers
	Name string // for people
	// Fetch has the numbers brought to host memory and calls ready when they are there, or are not to be had; perhaps at once.
	Fetch func(ready func())
	// Loaded is what the adapter has for a weight with slots, once it is there; done is false before.
	Loaded func() (l AdapterNumbers, done bool, err error)
}

// AdapterNumbers is a loaded adapter.
type AdapterNumbers struct {
	Of    func(w *graph.Weight) *graph.LowRank
	Rank  int // the largest
	Bytes int // of a number
	// Alone says that it cannot act beside another on one sequence, because it replaces or scales results of the base.
	Alone bool
	// Invocation is the tokens with which a prompt activates the adapter: it acts from their last occurrence on, and not at all where they
	// do not occur. Empty: it acts on all tokens.
	Invocation []int32
}

// AdapterUse is an adapter of one request, and what its changes are multiplied by.
type AdapterUse struct {
	*Adapter
	Scale float32
}

// residency is the adapters in the program's slots, and the requests that wait for theirs.
type residency struct {
	prog    compile.Runner
	queue   *queue // that requests join when their adapters are there
	pool    *adapters.Pool
	blocked []*request // in the order in which they came
	freed   bool       // slots were given back since blocked was looked through
	ids     []uint64   // used again
	loads   []adapters.Load
	loaded  int64 // adapters put into slots
}

func newResidency(prog compile.Runner, q *queue, aging int64) residency {
	return residency{prog: prog, queue: q, pool: adapters.New(prog.Limits().Adapters, aging)}
}

// count adds the figures.
func (x *residency) count(s *Stats) {
	s.AdapterLoads = x.loaded
	s.Waiting += len(x.blocked)
}

// checkAdapters refuses adapters that a request cannot have.
func checkAdapters(r *Request, lim backend.Limits) error {
	if most := min(lim.Adapters, backend.MaxSeqAdapters); len(r.Adapters) > most {
		return invalid("the request has %d adapters and %d can be used at once; --max-loras sets how many, up to %d a request", len(r.Adapters), most, backend.MaxSeqAdapters)
	}
	for i, a := range r.Adapters {
		if math.IsNaN(float64(a.Scale)) || math.IsInf(float64(a.Scale), 0) {
			return invalid("the scale of adapter %s is %v", a.Name, a.Scale)
		}
		for _, b := range r.Adapters[:i] {
			if a.ID == b.ID {
				return invalid("adapter %s is named twice", a.Name)
			}
		}
	}
	return nil
}

// adapterSalt is a salt for what requests with these adapters share, the first of which acts from a position on.
func adapterSalt(salt uint64, uses []AdapterUse, from int) uint64 {
	if len(uses) == 0 {
		return salt
	}
	sum := fnv.New64a()
	_ = binary.Write(sum, binary.LittleEndian, [2]uint64{salt, uint64(from)}) // which does not fail
	for _, u := range uses {
		_ = binary.Write(sum, binary.LittleEndian, u.ID)
		_ = binary.Write(sum, binary.LittleEndian, u.Scale)
	}
	return sum.Sum64()
}

// block has a request wait until its adapters are in their slots. ready is called when one of them has come to host memory.
func (x *residency) block(r *request, ready func()) {
	x.blocked = append(x.blocked, r)
	for _, u := range r.Adapters {
		u.Fetch(ready)
	}
}

// unblock has those requests wait their turn whose adapters have slots now, loading those that are new to them. It returns the requests that
// end, with their errors.
func (x *residency) unblock(now int64) (failed []*request) {
	x.freed = false
	if len(x.blocked) == 0 {
		return nil
	}
	kept := x.blocked[:0]
	for _, r := range x.blocked {
		switch ready, err := r.loaded(); {
		case r.ended:
		case err != nil:
			r.err = err
			failed = append(failed, r)
		case !ready || !x.take(r, now):
			kept = append(kept, r)
		default:
			if r.err == nil {
				r.activate()
				r.err = x.queue.enqueue(r)
			}
			if r.err != nil {
				failed = append(failed, r)
			}
		}
	}
	clear(x.blocked[len(kept):])
	if x.blocked = kept; len(kept) > 0 {
		x.pool.Age(true, kept[0].sched.Arrived, now)
	} else {
		x.pool.Age(false, 0, now)
	}
	return failed
}

// loaded reports whether all adapters of a request are in host memory.
func (r *request) loaded() (bool, error) {
	r.numbers = r.numbers[:0]
	for _, u := range r.Adapters {
		l, done, err := u.Loaded()
		if err != nil {
			return false, &InvalidError{Reason: err.Error()}
		}
		if !done {
			return false, nil
		}
		r.numbers = append(r.numbers, l)
		if l.Alone && len(r.Adapters) > 1 {
			return false, invalid("adapter %s cannot be combined with others: it scales or replaces results of the base (DoRA, saved modules, trained tokens)", u.Name)
		}
	}
	return true, nil
}

// take has a request hold the slots of its adapters, and puts those that are new there.
func (x *residency) take(r *request, now int64) bool {
	x.ids = x.ids[:0]
	for _, u := range r.Adapters {
		x.ids = append(x.ids, u.ID)
	}
	var ok bool
	r.slots, x.loads, ok = x.pool.Take(x.ids, now, r.slots, x.loads[:0])
	if !ok {
		return false
	}
	for _, load := range x.loads {
		of := r.numbers[slices.Index(x.ids, load.ID)].Of
		if r.err = x.prog.SetAdapter(load.Slot, of); r.err != nil {
			x.pool.Release(r.slots, now)
			for _, load := range x.loads {
				x.pool.Forget(load.ID)
			}
			r.slots = r.slots[:0]
			return true // it ends
		}
		x.loaded++
	}
	return true
}

// release gives back what a request holds.
func (x *residency) release(r *request, now int64) {
	if len(r.slots) > 0 {
		x.pool.Release(r.slots, now)
		r.slots, x.freed = nil, true
	}
	if i := slices.Index(x.blocked, r); i >= 0 {
		x.blocked = slices.Delete(x.blocked, i, i+1)
	}
}

// fillAdapters adds the adapters of the step's sequences to its batch.
func (f *InFlight) fillAdapters() {
	b := &f.batch
	for i := range f.requests {
		a := &f.requests[i]
		for j, u := range a.request.Adapters {
			l := &a.request.numbers[j]
			skip := min(max(0, a.request.acts[j]-a.from), a.tokens)
			if skip == a.tokens {
				continue
			}
			b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(i), Slot: int32(a.request.slots[j]), Skip: int32(skip), Nth: int32(j), Scale: u.Scale, Rank: int32(l.Rank), Bytes: int32(l.Bytes)})
		}
	}
	slices.SortFunc(b.Adapters, func(x, y backend.SeqAdapter) int {
		return cmp.Or(cmp.Compare(x.Slot, y.Slot), cmp.Compare(x.Seq, y.Seq))
	})
}

// activate finds out from where on a request's adapters act. What comes before is the base's, and shared with requests without adapters.
func (r *request) activate() {
	tenant, first := r.salt.Own, math.MaxInt
	r.acts = r.acts[:0]
	for i := range r.numbers {
		at := invoked(r.Prompt, r.numbers[i].Invocation)
		r.acts = append(r.acts, at)
		first = min(first, at)
	}
	r.salt = kv.Salt{Own: adapterSalt(tenant, r.Adapters, first), Before: tenant, From: first}
}

// invoked is from which position of a prompt on an adapter acts: that of its invocation, where it is last; beyond all positions where there
// is none.
func invoked(prompt, invocation []int32) int {
	if len(invocation) == 0 {
		return 0
	}
	for at := len(prompt) - len(invocation); at >= 0; at-- {
		if slices.Equal(prompt[at:at+len(invocation)], invocation) {
			return at
		}
	}
	return math.MaxInt
}
