package sched

// Schedule is what a step does. Its memory is reused when it is filled again.
type Schedule struct {
	Preempt []Preemption // to be carried out first: it frees the pages that the chunks take
	Chunks  []Chunk      // in the order in which to give out pages
	Shape   Shape        // of the step, if the cache has no more for the admitted than Match said

	builder
}

// Chunk moves one request some tokens forward.
type Chunk struct {
	Request *Request
	Tokens  int  // ≥ 1, after those computed or, for the admitted, found in the cache
	Logits  bool // they end at the target
	Admit   bool // the request comes from the queue; if it is Swapped, its pages are to be swapped in
	Rank    int  // of the devices with sequences of their own, the one whose pages it takes

	pages int // that it takes
	from  int // tokens computed before
}

// Preemption takes the pages of a running request.
type Preemption struct {
	Request *Request
	Swap    bool // its pages go to host memory; otherwise they are freed, and it is computed again
}

// short is the most tokens a request may have left to be served before prompts: one that is answering, the few
// that a grammar left no choice about, or the end of a prompt. It keeps prompts from delaying answers and is small enough not to be worth cutting.
const short = 8

// builder is the state while one Schedule is made.
type builder struct {
	state     *State
	cache     Cache
	available []int   // pages of each rank, after what is scheduled
	room      []int   // tokens of prompts that each rank may still have: an equal share
	load      []int   // requests that run on each rank, those admitted counted
	host      []int   // host pages, likewise
	budget    int     // tokens left
	reserved  []int   // pages of each rank that running prompts will still take, and with Options.Whole running requests
	answers   int     // chunks of the requests served before prompts
	limit     float64 // that the step may take for the prompts in it, µs; 0: none
	alone     Shape   // of the answers
	chunkOf   []int   // per running request: its chunk's place + 1, or 0
	dropped   []bool  // per running request: it is preempted
}

// Schedule fills out with what the next step should do. now is on the clock of Request.Arrived, ns.
func (s *State) Schedule(out *Schedule, cache Cache, now int64) {
	n := len(s.running)
	*out = Schedule{
		Preempt: out.Preempt[:0],
		Chunks:  out.Chunks[:0],
		builder: builder{
			state: s, cache: cache,
			available: zeroed(out.available, s.options.ranks()),
			room:      zeroed(out.room, s.options.ranks()),
			load:      zeroed(out.load, s.options.ranks()),
			reserved:  zeroed(out.reserved, s.options.ranks()),
			host:      zeroed(out.host, s.options.ranks()),
			budget:    s.options.MaxBatchedTokens,
			chunkOf:   zeroed(out.chunkOf, n),
			dropped:   zeroed(out.dropped, n),
		},
	}
	for rank := range out.available {
		out.available[rank], out.host[rank], out.room[rank] = cache.Available(rank), cache.HostAvailable(rank), s.options.share()
	}
	for _, r := range s.running {
		out.load[r.Rank]++
	}
	if s.options.Whole {
		out.serveWhole()
		if len(out.Preempt) == 0 {
			out.admit(now)
		}
		out.compact()
		return
	}
	first := 0 // running requests to serve first, each with one token at least
	for _, r := range s.running {
		if r.left() <= short {
			first++
		}
	}
	most := s.answers(first)
	for i, r := range s.running {
		if r.left() <= short {
			first--
			if r.left() > 0 && most == 0 {
				continue
			}
			most -= min(r.left(), 1)
			out.serve(i, min(r.left(), out.budget-first))
		}
	}
	if out.answers = len(out.Chunks); out.answers > 0 {
		out.limit, out.alone = s.options.limit(out.Shape), out.Shape
	}
	out.budget = min(out.budget, s.prompts())
	stuck := -1
	for i, r := range s.running {
		if r.left() > short && !out.dropped[i] && !out.prefill(i) && stuck < 0 {
			stuck = i
		}
	}
	if stuck >= 0 && out.Shape.Tokens == 0 {
		out.serve(stuck, 1) // nothing moves at all: a request has to be preempted
	}
	if len(out.Preempt) == 0 {
		out.admit(now)
	}
	out.compact()
}

func zeroed[T any](slice []T, n int) []T {
	if cap(slice) < n {
		return make([]T, n, 2*n)
	}
	slice = slice[:n]
	clear(slice)
	return slice
}

// serveWhole gives running requests all that they have left, in the order in which they run, as far as the step has room. What they may still come to
// is reserved: what the cache has of a text depends on what it was computed beside, and would be another if it had to be computed again.
func (p *Schedule) serveWhole() {
	for i, r := range p.state.running {
		p.reserved[r.Rank] += r.most(&p.state.options) - p.cache.Returns(r)
		if r.left() <= p.budget {
			p.serve(i, r.left())
		}
		if at := p.chunkOf[i]; at > 0 {
			p.reserved[r.Rank] -= p.Chunks[at-1].pages
		}
	}
}

// serve gives running request i its next n tokens, and preempts others for their pages if need be, or the request
// itself if it is the first to go.
func (p *Schedule) serve(i, n int) {
	if p.dropped[i] || n <= 0 {
		return
	}
	r := p.state.running[i]
	need := p.cache.Need(r, n)
	for need > p.available[r.Rank] {
		victim := p.victim(r.Rank)
		p.preempt(victim)
		if victim == i {
			return
		}
	}
	p.give(Chunk{Request: r, Tokens: n, Logits: n == r.left(), Rank: r.Rank, pages: need, from: r.Computed})
	p.chunkOf[i] = len(p.Chunks)
}

// prefill gives running request i, which is in the middle of its prompt, the chunk for which there are tokens, pages
// and time. It reports whether there was one.
func (p *Schedule) prefill(i int) bool {
	r := p.state.running[i]
	left := r.left()
	whole := p.cache.Need(r, left)
	n := p.chunk(r.Rank, r.Computed, left, r.began)
	need := p.cache.Need(r, n)
	if missing := need - p.available[r.Rank]; missing > 0 {
		o := &p.state.options
		n = (o.pagesFor(r.Computed+n)-missing)*o.PageSize - r.Computed
		need -= missing
	}
	if n <= 0 {
		p.reserved[r.Rank] += whole
		return false
	}
	p.reserved[r.Rank] += whole - need
	p.room[r.Rank] -= n
	p.give(Chunk{Request: r, Tokens: n, Logits: n == left, Rank: r.Rank, pages: need, from: r.Computed})
	p.chunkOf[i] = len(p.Chunks)
	return true
}

// admit takes waiting requests while all their tokens will have pages; with Options.Whole those of their answers too.
func (p *Schedule) admit(now int64) {
	o := &p.state.options
	room := o.MaxSeqs - len(p.state.running)
	if p.state.heldBack() {
		return
	}
	queue := waitingOrder{state: p.state, now: now}
	for ; room > 0 && p.budget > 0; room-- { // without tokens to give, what the cache has need not be looked up
		r := queue.next()
		if r == nil {
			return
		}
		at, ok := p.best(r)
		if !ok {
			return
		}
		n := at.tokens
		need := o.pagesFor(at.found+n) - at.taken + at.idle
		p.reserved[at.rank] += at.whole - need
		p.room[at.rank] -= n
		p.load[at.rank]++
		p.give(Chunk{Request: r, Tokens: n, Logits: at.found+n == r.Target, Admit: true, Rank: at.rank, pages: need, from: at.found})
	}
}

// give puts a chunk into the schedule.
func (p *Schedule) give(c Chunk) {
	p.available[c.Rank] -= c.pages
	p.budget -= c.Tokens
	p.Shape = p.Shape.add(c.from, c.Tokens, c.Logits)
	p.Chunks = append(p.Chunks, c)
}

// chunk is how many of the left tokens after those computed the step has room for, of a prompt that is read from began on. A part
// of what is left ends with a page, so that others can share all of it.
func (p *Schedule) chunk(rank, computed, left, began int) int {
	o := &p.state.options
	n := min(left, p.budget, p.room[rank])
	if o.Whole && n < left {
		return 0
	}
	if p.limit > 0 {
		n = p.inTime(computed, left, n, p.limitOf(began, computed+left-began))
	}
	if n < left {
		n = max(0, (computed+n)/o.PageSize*o.PageSize-computed)
	}
	return n
}

// limit is what a step may take for which answers have this shape, µs; 0: any time.
func (o *Options) limit(answers Shape) float64 {
	switch {
	case o.TargetITL > 0:
		return o.TargetITL
	case o.ITLRatio > 0:
		return o.ITLRatio * o.Usual(answers)
	}
	return 0
}

const (
	longReading = 12    // steps
	longShare   = 0.375 // of the time that a step has for prompts
)

// limitOf is what the step may take for the sake of a prompt of which so many tokens are read after those found in the cache, µs. One prompt now and then
// makes a few of the neighbours' gaps longer. One that takes more than longReading steps, and another after it, is what most of their gaps are made of: it gets a
// part of the time, and takes longer. What it leaves others have.
func (p *Schedule) limitOf(found, reading int) float64 {
	o := &p.state.options
	if o.TargetITL > 0 {
		return p.limit
	}
	room := p.limit - p.limit/o.ITLRatio
	if o.Price(p.alone.add(found, reading, true))-o.Price(p.alone) > longReading*room {
		return p.limit - (1-longShare)*room
	}
	return p.limit
}

// inTime is the most tokens, up to n, with which the step still ends within the limit, µs; but the first prompt in a
// step gets a page's worth whatever the time, so that it ends at last.
func (p *Schedule) inTime(computed, left, n int, limit float64) int {
	o := &p.state.options
	fits := 0
	if len(p.Chunks) == p.answers {
		fits = min(n, o.PageSize)
	}
	for n > fits {
		middle := (fits + n + 1) / 2
		if o.Price(p.Shape.add(computed, middle, middle == left)) <= limit {
			fits = middle
		} else {
			n = middle - 1
		}
	}
	return fits
}

// compact takes out the chunks of the preempted.
func (p *Schedule) compact() {
	kept := p.Chunks[:0]
	for _, c := range p.Chunks {
		if c.Tokens > 0 {
			kept = append(kept, c)
		}
	}
	p.Chunks = kept
}
