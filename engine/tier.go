package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/engine/sched"
)

// Offload is where pages of the cache are kept when the device has no room for them: in host memory (backend.Limits.HostPages), and behind it in stores, by what they hold.
type Offload struct {
	Seed    kv.Key          // stands for all that the numbers in the cache depend on beside tokens and salts
	Stores  []offload.Store // which the engine closes; the nearest first
	Through bool            // pages are kept as soon as they are computed, and not only when the device needs their room
	Shared  bool            // host memory is read by other servers, and gets pages of theirs: see Request.Peer
	Always  bool            // what is kept is used wherever it is found, and not only where that takes less than computing it
}

// tier is the engine's side of what is kept beyond the device. What is done with a page of host memory is done in order with the steps; what stores do, they do beside.
type tier struct {
	*offload.Tier
	pages   *pages
	prog    compile.Runner
	pager   compile.HostPager // nil: copies are done when they are given, and nobody else reads host memory
	through bool
	always  bool
	shared  bool
	base    []int32 // per cache group: the first of its pages of host memory
	page    int64   // bytes of a page of all groups
	wait    func(from, to int) time.Duration
	signal  func()

	out     []kv.KeyedPage // of the device, to be copied to host memory
	to      []int32        // where
	flights []flight       // copies under way
	waiting []*request     // for a fetch
	used    []kv.Key       // of an import
	back    []int32        // likewise: pages of host memory
	missing []kv.KeyedPage // likewise
	origins []offload.Origin

	stores   int
	imported [2 + MaxStores]int64 // tokens, from host memory, from each store and from peers
}

// flight is copies that were given to the device.
type flight struct {
	number int            // of compile.HostPager
	filled []kv.KeyedPage // pages of host memory that are whole then
	used   []kv.Key       // keys whose pages are free to be written over then
}

// newTier is what is kept beyond the device; nil where there is no host memory for it.
func newTier(o Options, prog compile.Runner, p *pages, signal func()) (*tier, error) {
	lim := prog.Limits()
	if lim.HostPages == 0 {
		return nil, nil
	}
	if o.Index == "none" {
		return nil, errors.New("engine: pages are to be kept in host memory and the prefix index is none, by which they would be found; take radix or hash")
	}
	t := &tier{pages: p, prog: prog, through: o.Offload.Through, always: o.Offload.Always, signal: signal, stores: len(o.Offload.Stores)}
	t.pager, _ = prog.(compile.HostPager)
	settings := offload.Options{Stores: o.Offload.Stores, Wake: signal}
	for group := range prog.Groups() {
		t.base = append(t.base, int32(lim.GroupSwapPages(group)))
		t.page += prog.PageBytes(group)
		settings.Pages = append(settings.Pages, lim.GroupHostPages(group))
	}
	t.shared = o.Offload.Shared
	if len(o.Offload.Stores) > 0 || t.shared {
		if t.pager == nil {
			return nil, errors.New("engine: pages are to be kept in folders or sent to other servers, and the program's host memory is not this process's")
		}
		settings.Memory = func(group int, page int32) [][]byte { return t.pager.HostPage(group, page+t.base[group]) }
		settings.Spread = func(group int, page int32) { t.pager.Spread(group, page+t.base[group]) }
	}
	t.Tier = offload.New(settings)
	p.Offload(o.Offload.Seed, t.evicted)
	return t, nil
}

// keep has a page of the device copied to host memory with the next copies, unless that has it.
func (t *tier) keep(p kv.KeyedPage) {
	if page, fresh := t.Put(p.Key, p.Group); fresh {
		t.out, t.to = append(t.out, p), append(t.to, page+t.base[p.Group])
	}
}

func (t *tier) evicted(key kv.Key, group int, page int32) {
	t.keep(kv.KeyedPage{Key: key, Group: group, Page: page})
}

// flush gives the device the copies to host memory that are due, before something else comes to those pages.
func (t *tier) flush() error {
	if t == nil || len(t.out) == 0 {
		return nil
	}
	err := t.copies(t.out, func(group int, device, host []int32) error { return t.prog.SwapOut(group, device, host) }, t.to)
	if err == nil {
		t.fly(flight{filled: slices.Clone(t.out)})
	} else {
		t.Cancel(t.out)
	}
	t.out, t.to = t.out[:0], t.to[:0]
	return err
}

// forget gives up copies that are due: the device may hold something else.
func (t *tier) forget() {
	if t != nil {
		t.Cancel(t.out)
		t.out, t.to = t.out[:0], t.to[:0]
	}
}

// copies has by copy pages of the device and of host memory, group by group.
func (t *tier) copies(pages []kv.KeyedPage, by func(group int, device, host []int32) error, host []int32) error {
	p := t.pages
	for group := range p.Groups() {
		p.from, p.to = p.from[:0], p.to[:0]
		for i := range pages {
			if pages[i].Group == group {
				p.from, p.to = append(p.from, pages[i].Page), append(p.to, host[i])
			}
		}
		if len(p.from) > 0 {
			if err := by(group, p.from, p.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// fly notes copies that have been given.
func (t *tier) fly(f flight) {
	if t.pager != nil {
		f.number = t.pager.Swaps()
	}
	t.flights = append(t.flights, f)
}

// land takes in the copies that are done.
func (t *tier) land() error {
	if t == nil || len(t.flights) == 0 {
		return nil
	}
	done := 0
	if t.pager != nil {
		var err error
		if done, err = t.pager.SwapsDone(); err != nil {
			return err
		}
	}
	n := 0
	for ; n < len(t.flights) && t.flights[n].number <= done; n++ {
		t.Filled(t.flights[n].filled)
		t.Used(t.flights[n].used)
	}
	t.flights = slices.Delete(t.flights, 0, n)
	return nil
}

// polled is how long an engine that has nothing else to do waits for copies.
const polled = time.Millisecond

// remind wakes an engine that is about to sleep when copies are done.
func (t *tier) remind() {
	if t != nil && len(t.flights) > 0 {
		time.AfterFunc(polled, t.signal)
	}
}

// settle has the copies made that are due, and takes in those that are done.
func (t *tier) settle() error {
	if err := t.flush(); err != nil {
		return err
	}
	return t.land()
}

// find is the pages of host memory that a key has.
func (t *tier) find(key kv.Key) (kv.HostPages, bool) { return t.Find(key) }

// match is how many tokens a request could begin with, and how many idle pages that would take.
func (t *tier) match(r *request) (tokens int, idle kv.Pages) {
	n, idle := t.pages.Importable(r.salt, r.shareable(), r.keys, t.find)
	return n * t.pages.PageSize(), idle
}

// bring has a request go on, behind what the device has of its tokens, with what host memory has. It returns how many tokens further that is.
func (t *tier) bring(r *request) (int, error) {
	size, first := t.pages.PageSize(), r.seq.Pages()
	last, _ := t.match(r)
	n := last/size - first
	if n <= 0 || !t.pays(first*size, last) {
		return 0, nil
	}
	t.used = t.used[:0]
	for _, key := range r.keys[first : first+n] {
		if _, ok := t.Find(key); ok {
			t.used = append(t.used, key)
		}
	}
	var ok bool
	if t.origins, ok = t.Use(t.used, t.origins[:0]); !ok {
		return 0, nil // given to others since
	}
	if t.missing, ok = t.pages.Import(&r.seq, r.shareable(), n, t.missing[:0]); !ok {
		t.Used(t.used)
		return 0, nil
	}
	t.note(r, first, n)
	if err := t.pages.copyPages(); err != nil { // pages that it gets may be about to be copied from
		return 0, err
	}
	t.back = t.back[:0]
	for _, m := range t.missing {
		pages, ok := t.Find(m.Key)
		if !ok || !pages.Has(m.Group) {
			return 0, fmt.Errorf("engine: a page of group %d that was to be copied back is not in host memory", m.Group)
		}
		t.back = append(t.back, pages[m.Group]+t.base[m.Group])
	}
	err := t.copies(t.missing, func(group int, device, host []int32) error { return t.prog.SwapIn(group, host, device) }, t.back)
	t.fly(flight{used: slices.Clone(t.used)})
	return n * size, err
}

// note counts where the n pages of a request from number first on came from.
func (t *tier) note(r *request, first, n int) {
	at := 0
	for _, key := range r.keys[first : first+n] {
		if at < len(t.used) && t.used[at] == key {
			from := 1 + int(t.origins[at]) // memory is -1
			if t.origins[at] == offload.AtPeer {
				from = 1 + MaxStores
			}
			if r.output == 0 { // else it has been preempted, and these are not of its prompt alone
				r.imported[from] += t.pages.PageSize()
			}
			t.imported[from] += int64(t.pages.PageSize())
			at++
		}
	}
}

// pays reports whether copying a text's tokens [from, to) from host memory takes less than computing them.
func (t *tier) pays(from, to int) bool {
	copying := SwapLag + time.Duration((to-from)/t.pages.PageSize())*t.pages.swapPage
	computing := t.wait(from, to)
	return t.always || computing == 0 || copying < computing
}

// unknownPrice is what computing a page's tokens is taken to take before anything is known of it, or where that does not matter.
const unknownPrice = 100 * time.Millisecond

// alwaysWaits is the longest that a request waits for stores where what is kept is used wherever it is found.
const alwaysWaits = 10 * time.Second

// fetch has a request wait for what stores have of its prompt, if they have any; false: it need not wait.
func (t *tier) fetch(r *request) bool {
	if t == nil || t.stores == 0 && r.Peer == nil || r.shareable() == nil {
		return false
	}
	tokens, _ := t.match(r)
	size := t.pages.PageSize()
	from, to := tokens/size, min(len(r.keys), (len(r.tokens)-1)/size, tokens/size+t.prog.Limits().HostPages/2)
	if from >= to {
		return false
	}
	computing := t.wait(from*size, to*size)
	if computing == 0 || r.Peer != nil {
		computing = unknownPrice * time.Duration(to-from)
	}
	each := computing / time.Duration(to-from)
	if t.always {
		computing, each = alwaysWaits, alwaysWaits
	}
	r.fetch = &offload.Fetch{Keys: r.keys[from:to], Bytes: t.page, PerKey: each, Deadline: time.Now().Add(computing), Peer: r.Peer}
	if !t.Fetch(r.fetch) {
		r.fetch = nil
		return false
	}
	t.waiting = append(t.waiting, r)
	return true
}

// fetched has those requests wait their turn that wait for no store any more. It returns those that the scheduler refused.
func (t *tier) fetched(q *queue) (failed []*request) {
	if t == nil {
		return nil
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(r *request) bool {
		if !r.ended && !r.fetch.Ended() {
			return false
		}
		if !r.ended {
			if r.err = q.enqueue(r); r.err != nil {
				failed = append(failed, r)
			}
		}
		return true
	})
	return failed
}

// computed keeps what a step has computed of requests.
func (t *tier) computed(f *InFlight) {
	if t == nil || !t.through {
		return
	}
	size := t.pages.PageSize()
	for i := range f.requests {
		a := &f.requests[i]
		r := a.request
		if whole := (a.from + a.tokens) / size; !r.ended && whole > r.kept {
			t.missing, r.kept = t.pages.Published(t.missing[:0], &r.seq, r.kept, whole)
			for _, p := range t.missing {
				t.keep(p)
			}
		}
	}
}

// begin has other servers wait for what a request computes for them.
func (t *tier) begin(r *request) {
	if t == nil || r.LeaseTime == 0 {
		return
	}
	var last []kv.Key
	if slices.Contains(t.pages.recurrent, true) { // they are kept when the request ends
		last = r.keys[min(len(r.keys), max(0, (len(r.tokens)-1)/t.pages.PageSize()-1)):]
	}
	t.Expect(r.Lease, last)
}

// leave keeps the states that an ended request leaves, and lets it wait no longer.
func (t *tier) leave(r *request, whole bool) {
	if t == nil {
		return
	}
	if whole && t.through && !r.away {
		t.missing = t.pages.PublishedStates(t.missing[:0], &r.seq)
		for _, p := range t.missing {
			t.keep(p)
		}
	}
	if r.LeaseTime > 0 {
		if whole {
			t.Lease(r.Lease, r.keys, r.LeaseTime)
		}
		t.Expected(r.Lease)
	}
	if i := slices.Index(t.waiting, r); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		r.fetch.End()
	}
}

// waits is how many requests wait for stores.
func (t *tier) waits() int {
	if t == nil {
		return 0
	}
	return len(t.waiting)
}

// count adds the figures.
func (t *tier) count(s *Stats, main int) {
	if t == nil {
		return
	}
	s.Waiting += len(t.waiting)
	s.Kept.Found = t.imported
	t.beside(s, main)
}

// beside sets the figures of what goes on beside steps, also where none follows: leases end, and peers and stores read and write. Any goroutine may call it.
func (t *tier) beside(s *Stats, main int) {
	if t == nil {
		return
	}
	x := t.Stats(main)
	s.Kept = KeptStats{Pages: x.Pages, Used: x.Used, Found: s.Kept.Found, Dropped: x.Dropped, Failed: x.Failed, Damaged: x.Damaged}
	copy(s.Kept.Read[1:], x.Read)
	copy(s.Kept.Written[1:], x.Written)
	s.Kept.Read[1+MaxStores], s.Kept.Written[1+MaxStores], s.Kept.Expired = x.Received, x.Sent, x.Expired
}

// closing is how long the end of an engine may take for the sake of pages that wait to be written.
const closing = 5 * time.Second

// close writes what is to be written and ends what is under way.
func (t *tier) close() {
	if t == nil {
		return
	}
	for deadline := time.Now().Add(time.Second); len(t.flights) > 0 && time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if t.land() != nil {
			break // the device is lost
		}
	}
	_ = t.Tier.Close(closing) // what was not written is computed again
}

// MaxStores is the most stores that an engine can have.
const MaxStores = offload.MaxStores

// KeptStats is what is kept beyond the device.
type KeptStats = offload.Kept

// checkOffload refuses stores without host memory, which is the way to them.
func (o Options) checkOffload(lim backend.Limits) error {
	if len(o.Offload.Stores) > 0 && lim.HostPages == 0 {
		return errors.New("engine: there are stores for pages of the cache and no host memory, through which they go")
	}
	if o.Diffusion != nil && lim.HostPages > 0 {
		return errors.New("engine: pages of a model that fills masked tokens in depend on the step that they were computed in, and are not kept beyond it")
	}
	return nil
}

// waitOf is a tier's wait: what computing a text's tokens takes.
func waitOf(stepTokens int, estimate func(sched.Shape) float64) func(from, to int) time.Duration {
	return func(from, to int) time.Duration {
		return time.Duration(1e3 * computing(from, to, stepTokens, estimate))
	}
}
