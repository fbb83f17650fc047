package engine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

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
	// Fetching is how long it would take now to bring the numbers to host memory, s; 0: they are there; below 0: nobody can ask for the adapter any more.
	// nil: no time.
	Fetching func() float64
	// Fetch has the numbers brought to host memory and calls ready when they are there, or are not to be had; perhaps at once.
	Fetch func(ready func())
	// Loaded is what the adapter has for a weight with slots, once it is there; done is false before.
	Loaded func() (l AdapterNumbers, done bool, err error)
}

// AdapterNumbers is a loaded adapter.
type AdapterNumbers struct {
	Of    func(w *graph.Weight) *graph.LowRank
	Rank  int   // the largest
	Bytes int   // of a number
	Size  int64 // of all numbers, bytes
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
	told    Recorder
	clock   clock
	wake    func() // is called when a load has ended
	aging   int64  // ns
	pool    *adapters.Pool
	pass    adapters.Queue
	known   map[uint64]*resident // by id, those in slots
	loading []int                // of each slot, loads that have not ended
	arrived arrivals
	blocked []*request // in the order in which they came
	freed   bool       // slots were given back since blocked was looked through
	ids     []uint64   // used again
	loads   []adapters.Load
	loaded  int64   // adapters put into slots
	perByte float64 // what loading one takes, s, as measured
}

// resident is an adapter in a slot.
type resident struct {
	*Adapter
	size int64
}

// arrivals is the loads that have ended, which devices tell of in any goroutine.
type arrivals struct {
	mu   sync.Mutex
	list []arrival
}

// arrival is the end of a load.
type arrival struct {
	adapters.Load
	began time.Duration // since the engine's start
	err   error
}

func newResidency(prog compile.Runner, q *queue, told Recorder, aging int64, wake func()) *residency {
	n := prog.Limits().Adapters
	x := &residency{prog: prog, queue: q, told: told, clock: q.clock, wake: wake, aging: aging, known: map[uint64]*resident{}, loading: make([]int, n)}
	x.pool = adapters.New(n, x.price)
	return x
}

// price is how long it would take to put an adapter into a slot again, s.
func (x *residency) price(id uint64) float64 {
	r := x.known[id]
	if r == nil {
		return 0
	}
	fetching := 0.0
	if r.Fetching != nil {
		if fetching = r.Fetching(); fetching < 0 {
			return 0
		}
	}
	return fetching + float64(r.size)*x.perByte
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
	return sum.Sum64() | kv.Local // ids are of this process
}

// block has a request wait until its adapters are in their slots. ready is called when one of them has come to host memory.
func (x *residency) block(r *request, ready func()) {
	x.blocked = append(x.blocked, r)
	for _, u := range r.Adapters {
		u.Fetch(ready)
	}
}

// unblock has those requests wait their turn whose adapters are in slots now, and has adapters loaded into slots that are free. It returns the requests
// that end, with their errors.
func (x *residency) unblock(now int64) (failed []*request) {
	x.freed = false
	x.arrive()
	if len(x.blocked) == 0 {
		return nil
	}
	x.pass.Begin(x.pool)
	kept := x.blocked[:0]
	for _, r := range x.blocked {
		switch ready, err := r.loaded(); {
		case r.ended:
		case r.err != nil || err != nil:
			r.err = cmp.Or(r.err, err)
			failed = append(failed, r)
		case !ready || !x.take(r, now):
			kept = append(kept, r)
		default:
			if r.err == nil {
				r.activate()
				x.told.Adapted(r.sched.ID, x.clock.sinceStart(), r.parts())
				r.err = x.queue.enqueue(r)
			}
			if r.err != nil {
				failed = append(failed, r)
			}
		}
	}
	x.pass.End()
	clear(x.blocked[len(kept):])
	x.blocked = kept
	return failed
}

// arrive takes in the loads that have ended.
func (x *residency) arrive() {
	x.arrived.mu.Lock()
	list := x.arrived.list
	x.arrived.list = nil
	x.arrived.mu.Unlock()
	for _, a := range list {
		x.loading[a.Slot]--
		if r := x.known[a.ID]; a.err == nil && r != nil && r.size > 0 {
			took := (x.clock.sinceStart() - a.began).Seconds() / float64(r.size)
			if x.perByte == 0 {
				x.perByte = took
			}
			x.perByte += (took - x.perByte) / 8
		}
		if a.err != nil {
			x.fail(a.Load, a.err)
		}
	}
}

// fail ends the requests that wait for a load which has failed.
func (x *residency) fail(load adapters.Load, err error) {
	for _, r := range x.blocked {
		if i := slices.Index(r.slots, load.Slot); i >= 0 && r.Adapters[i].ID == load.ID {
			r.err = fmt.Errorf("engine: adapter %s did not get to the device: %w", r.Adapters[i].Name, err)
			x.pool.Release(r.slots)
			r.slots = nil
		}
	}
	x.pool.Forget(load.ID)
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

// take has a request hold the slots of its adapters, and has those loaded that are new there. It reports whether all are there, or the request ends.
func (x *residency) take(r *request, now int64) bool {
	if len(r.slots) == 0 && !x.hold(r, now) {
		return false
	}
	return r.err != nil || !slices.ContainsFunc(r.slots, func(slot int) bool { return x.loading[slot] > 0 })
}

// hold finds slots for a request.
func (x *residency) hold(r *request, now int64) bool {
	x.ids = x.ids[:0]
	for _, u := range r.Adapters {
		x.ids = append(x.ids, u.ID)
	}
	var ok bool
	if r.slots, x.loads, ok = x.pass.Take(x.ids, now-r.sched.Arrived >= x.aging, r.slots, x.loads[:0]); !ok {
		return false
	}
	maps.DeleteFunc(x.known, func(id uint64, _ *resident) bool { return !x.pool.Has(id) })
	for i, id := range x.ids {
		x.known[id] = &resident{r.Adapters[i].Adapter, r.numbers[i].Size}
	}
	for _, load := range x.loads {
		if r.err = x.load(load, r.numbers[slices.Index(x.ids, load.ID)].Of); r.err == nil {
			continue
		}
		x.pool.Release(r.slots)
		r.slots = nil
		for _, load := range x.loads {
			x.pool.Forget(load.ID)
		}
		return true
	}
	if len(x.loads) > 0 { // a device may need no time
		x.arrive()
	}
	return true
}

// load has an adapter put into a slot. Until it is there no step uses the slot.
func (x *residency) load(load adapters.Load, of func(w *graph.Weight) *graph.LowRank) error {
	began := x.clock.sinceStart()
	x.loading[load.Slot]++
	x.loaded++
	err := x.prog.SetAdapter(load.Slot, of, func(err error) {
		x.arrived.mu.Lock()
		x.arrived.list = append(x.arrived.list, arrival{load, began, err})
		x.arrived.mu.Unlock()
		x.wake()
	})
	if err != nil {
		x.loading[load.Slot]--
	}
	return err
}

// release gives back what a request holds.
func (x *residency) release(r *request) {
	if len(r.slots) > 0 {
		x.pool.Release(r.slots)
		r.slots, x.freed = nil, true
	}
	if i := slices.Index(x.blocked, r); i >= 0 {
		x.blocked = slices.Delete(x.blocked, i, i+1)
	}
}

// sortByAdapter puts requests with the same first adapter one behind the other: devices read an adapter once for all rows that lie together.
func (f *InFlight) sortByAdapter() {
	slot := func(a advance) int {
		if len(a.request.Adapters) == 0 {
			return -1
		}
		return a.request.slots[0]
	}
	if slices.ContainsFunc(f.requests, func(a advance) bool { return slot(a) >= 0 }) {
		slices.SortStableFunc(f.requests, func(x, y advance) int { return cmp.Compare(slot(x), slot(y)) })
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

// parts is what steps have of a request's adapters.
func (r *request) parts() []AdapterPart {
	parts := make([]AdapterPart, len(r.numbers))
	for i := range parts {
		parts[i] = AdapterPart{Rank: r.numbers[i].Rank, Bytes: r.numbers[i].Bytes, From: r.acts[i]}
	}
	return parts
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
