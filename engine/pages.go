package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// pages is the account of the pages of the cache, those in host memory included, and what the device has to copy between them.
type pages struct {
	*kv.Manager               // of the first device that has sequences of its own, or of the only one
	ranks       []*kv.Manager // of all of them
	prog        compile.Runner
	main        int       // the cache group that the scheduler knows
	recurrent   []bool    // per cache group: its pages are states
	each        []int32   // per cache group: pages of one rank, by which those of the next are counted from
	copies      []kv.Copy // due before the next step

	preemptions int64 // so far

	hosts    []*kv.Manager // of host memory, of each rank; nil: nothing is swapped
	hostEach []int32       // per cache group: pages of host memory of one rank
	swapPage time.Duration // that moving a page takes
	away     int           // requests that are swapped out
	moves    []kv.Copy     // of one sequence or, out, of all that a step preempts
	from, to []int32       // those of a cache group, as the program wants them
	swaps    int64         // requests swapped out so far
	kept     *tier         // what is kept beyond the device; nil: nothing is
	out, in  int64         // pages moved so far
}

// newPages is the account of the pages of a program.
func newPages(prog compile.Runner, o Options) (pages, error) {
	index, err := o.index()
	if err != nil {
		return pages{}, err
	}
	p := pages{prog: prog, swapPage: o.SwapPage}
	for _, g := range prog.Groups() {
		p.recurrent = append(p.recurrent, g.Recurrent)
	}
	lim := prog.Limits()
	told := o.CacheEvents
	if told != nil && lim.Ranks > 1 {
		told = ofAll(told)
	}
	for range max(lim.Ranks, 1) {
		m, main, err := newManager(prog.Groups(), lim.OfRank(), StatePages(prog), index)
		if err != nil {
			return pages{}, err
		}
		if told != nil {
			m.Watch(told)
		}
		p.main, p.ranks = main, append(p.ranks, m)
	}
	p.Manager = p.ranks[0]
	for group := range prog.Groups() {
		p.each = append(p.each, int32(lim.OfRank().GroupPages(group)))
	}
	for range p.ranks {
		host, err := newHost(prog.Groups(), lim.OfRank())
		if err != nil {
			return p, err
		}
		if host != nil {
			p.hosts = append(p.hosts, host)
		}
	}
	for group := range prog.Groups() {
		p.hostEach = append(p.hostEach, int32(lim.OfRank().GroupSwapPages(group)))
	}
	return p, nil
}

// hostOf is the account of host memory that a request is swapped out to.
func (p *pages) hostOf(r *request) *kv.Manager { return p.hosts[r.sched.Rank] }

// ofAll makes what is cached on any of several devices one cache to whom told tells of it: a node is there from the first device that has it to the last one. All are cleared together.
func ofAll(told func(kv.Event)) func(kv.Event) {
	on := map[uint64]int{} // devices that have a node
	return func(e kv.Event) {
		switch e.Kind {
		case kv.Stored:
			if on[e.Hash]++; on[e.Hash] > 1 {
				return
			}
		case kv.Removed:
			if on[e.Hash]--; on[e.Hash] > 0 {
				return
			}
			delete(on, e.Hash)
		case kv.Cleared:
			clear(on)
		}
		told(e)
	}
}

// of is the account of the device that has a request's pages.
func (p *pages) of(r *request) *kv.Manager { return p.ranks[r.sched.Rank] }

// base is the number among the pages of all ranks of the first that a request's rank has in a group.
func (p *pages) base(r *request, group int) int32 { return int32(r.sched.Rank) * p.each[group] }

// rebase makes pages of a request's rank those that all ranks have.
func (p *pages) rebase(r *request, copies []kv.Copy) {
	if r.sched.Rank == 0 {
		return
	}
	for i := range copies {
		c := &copies[i]
		if c.From >= 0 {
			c.From += p.base(r, c.Group)
		}
		if c.To >= 0 {
			c.To += p.base(r, c.Group)
		}
		for j := range c.Pages {
			c.Pages[j] += p.base(r, c.Store)
		}
	}
}

// moved is what moving a sequence's pages takes, in pages of all groups together.
func (p *pages) moved(s *kv.Seq) float64 {
	var bytes, page int64
	held := p.Held(s)
	for group := range p.Groups() {
		each := p.prog.PageBytes(group)
		bytes, page = bytes+int64(held[group])*each, page+each
	}
	return float64(bytes) / float64(max(page, 1))
}

// take gives a request the pages for its next n tokens, which its step computes. It reports whether there are as many.
func (p *pages) take(r *request, n int) (ok bool) {
	m, before := p.of(r), len(p.copies)
	if p.copies, ok = m.Append(&r.seq, n, p.copies); ok {
		m.Publish(&r.seq, r.shareable())
	}
	p.rebase(r, p.copies[before:])
	return ok
}

// copyPages has the device make the copies of pages that are due.
func (p *pages) copyPages() error {
	if err := p.kept.flush(); err != nil {
		return err
	}
	for _, c := range p.copies {
		var err error
		switch {
		case c.Pages == nil:
			err = p.prog.CopyPage(c.Group, c.From, c.To)
		case c.To < 0:
			err = p.prog.StoreState(c.Group, c.From, c.Store, c.Pages)
		default:
			err = p.prog.FetchState(c.Group, c.To, c.Store, c.Pages)
		}
		if err != nil {
			return err
		}
	}
	p.copies = p.copies[:0]
	return nil
}

// truncate leaves a request its first n tokens or, where pages before a window are gone, those that the cache has for it.
func (p *pages) truncate(r *request, n int) {
	if m := p.of(r); !m.Truncate(&r.seq, n) {
		m.Free(&r.seq)
		m.Open(&r.seq, r.salt, r.shareable())
	}
	r.sched.Computed = r.seq.Len()
}

// release gives a request's pages back, wherever they are.
func (p *pages) release(r *request) {
	if r.away {
		r.away = false
		p.away--
		p.hostOf(r).Free(&r.seq)
		return
	}
	m := p.of(r)
	m.Free(&r.before)
	m.Free(&r.other)
	m.Free(&r.seq)
}

// shareable is the part of a request's tokens that may be looked for in the cache.
func (r *request) shareable() []int32 {
	if r.whole {
		return nil
	}
	return r.tokens
}

// count adds the figures.
func (p *pages) count(s *Stats) {
	s.PageSize, s.Pages, s.PagesIdle, s.PagesUsed, s.States = p.PageSize(), 0, 0, 0, 0
	s.Queried, s.Found, s.Stranded, s.Evicted, s.StatesKept, s.StatesStored = 0, 0, 0, 0, 0, 0
	for _, m := range p.ranks {
		counts, total := m.Stats(), m.Total()
		s.Pages, s.PagesIdle = s.Pages+total[p.main], s.PagesIdle+m.Idle()[p.main]
		s.PagesUsed += total[p.main] - m.Available()[p.main]
		s.Queried, s.Found, s.Stranded, s.Evicted = s.Queried+counts.Queried, s.Found+counts.Found, s.Stranded+counts.Stranded, s.Evicted+counts.Evicted
		for i, recurrent := range p.recurrent {
			if recurrent {
				s.States += total[i]
			}
		}
		kept, stored := m.Kept()
		s.StatesKept, s.StatesStored = s.StatesKept+kept, s.StatesStored+stored
	}
	s.Preemptions = p.preemptions
	s.Swaps, s.SwappedOut, s.SwappedIn = p.swaps, p.out, p.in
	s.Swapped, s.HostPages, s.HostUsed = p.away, 0, 0
	for _, host := range p.hosts {
		total := host.Total()[p.main]
		s.HostPages, s.HostUsed = s.HostPages+total, s.HostUsed+total-host.Available()[p.main]
	}
}

// The scheduler knows the pages of one cache group, the main one: that which keeps most of every sequence. The others cannot run out
// before it does; see enough.

// cache answers what scheduling asks of the account of pages; it implements sched.Cache.
type cache struct {
	*pages
	of map[int64]*request
}

// Available implements sched.Cache.
func (c cache) Available(rank int) int { return c.ranks[rank].Available()[c.main] }

// HostAvailable implements sched.Cache.
func (c cache) HostAvailable(rank int) int {
	if c.hosts == nil {
		return 0
	}
	return c.hosts[rank].Available()[c.main]
}

// Need implements sched.Cache.
func (c cache) Need(r *sched.Request, tokens int) int {
	return c.ranks[r.Rank].Need(&c.of[r.ID].seq, tokens)[c.main]
}

// Returns implements sched.Cache.
func (c cache) Returns(r *sched.Request) int {
	q, m := c.of[r.ID], c.ranks[r.Rank]
	return m.Returns(&q.seq)[c.main] + m.Returns(&q.other)[c.main]
}

// Match implements sched.Cache.
func (c cache) Match(r *sched.Request, rank int) (tokens, idle int) {
	q := c.of[r.ID]
	var pages kv.Pages
	if c.kept != nil && len(q.keys) > 0 {
		tokens, pages = c.kept.match(q)
	} else {
		tokens, pages = c.ranks[rank].Match(q.salt, q.shareable())
	}
	return tokens, pages[c.main]
}

// newManager is the account of the pages of a program's cache groups, and which of them is the main one: the group that keeps all
// tokens or, where all have windows, that with the longest.
func newManager(groups []graph.CacheGroup, lim backend.Limits, statePages int, index func(nodes, pageSize int) kv.Index) (m *kv.Manager, main int, err error) {
	o := kv.Options{PageSize: lim.PageSize, Index: index, StatePages: statePages}
	for i, g := range groups {
		o.Groups = append(o.Groups, kv.Group{Pages: lim.GroupPages(i), Window: g.Window, Recurrent: g.Recurrent})
	}
	main = graph.MainGroup(groups)
	for i := range groups {
		if err := enough(&groups[i], i, lim); err != nil {
			return nil, 0, err
		}
	}
	m, err = kv.New(o)
	return m, main, err
}

// StatePages is how many pages of the group that keeps all tokens a program's state takes; 0: there are no states, or no such group.
func StatePages(prog compile.Runner) int {
	groups := prog.Groups()
	main := graph.MainGroup(groups)
	if state := slices.IndexFunc(groups, func(g graph.CacheGroup) bool { return g.Recurrent }); state >= 0 && !groups[main].Recurrent && groups[main].Window == 0 {
		return prog.StatePages(state, main)
	}
	return 0
}

// enough refuses a group that could run out of pages while the main group has some left. What a sequence holds in it is part of what
// the sequence holds in the main group, so as many pages as that has are enough; and so are those that any step can need.
func enough(g *graph.CacheGroup, i int, lim backend.Limits) error {
	need := min(lim.Pages, g.StepPages(graph.CacheShape{Seqs: lim.Seqs, Tokens: lim.SeqPages * lim.PageSize, StepTokens: lim.Tokens, PageSize: lim.PageSize}))
	if g.Recurrent {
		need = 2 // sequences beyond those that have a state wait
	}
	if have := lim.GroupPages(i); have < need {
		return fmt.Errorf("engine: cache group %d, with a window of %d tokens, has %d pages; steps of %d tokens and %d sequences can need %d", i, g.Window, have, lim.Tokens, lim.Seqs, need)
	}
	return nil
}

// hasStates reports whether layers are recurrent: their states cannot take tokens back.
func (p *pages) hasStates() bool { return slices.Contains(p.recurrent, true) }

// settleState leaves a request what its step computed, if all of it is right, or else what it had before: then the tokens that came are computed again.
func (p *pages) settleState(r *request, computed int) {
	if computed == r.seq.Len() {
		p.of(r).Free(&r.before)
	} else {
		p.of(r).Free(&r.seq)
		r.seq, r.before = r.before, r.seq
	}
	r.sched.Computed = r.seq.Len()
}
