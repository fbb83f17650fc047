package kv

import "fmt"

// radix is an index in which a run of pages that no text leaves half-way is one node, as in a radix tree: within a
// run, finding the next page is comparing tokens with it, without hashing, and recency is kept by run. Runs are split
// only when a text is inserted that leaves one half-way; they are never joined again.
//
// A run is known by its first page. Sequences hold beginnings of texts, so the held pages of a run are its beginning
// and the idle ones its end. A run is listed by recency while it has idle pages, and the end of the oldest is evicted
// first: it has no run after it, since letting go of that one came before.
type radix struct {
	contents         // only first pages of runs are filed by hash
	next     []int32 // per page: the page after it in its run, or none
	first    []int32 // per page: the first page of its run
	runs     []run   // by first page
	idle     recency // runs with idle pages, by their last release
}

type run struct {
	last   int32 // its last page
	length int32 // pages
	held   int32 // of those, pages with a holder: the first so many
	after  int32 // runs that come after its last page
}

// Radix is the index by runs of pages.
func Radix(pages, pageSize int) Index {
	return &radix{
		contents: newContents(pages, pageSize),
		next:     filled(pages, none),
		first:    filled(pages, none),
		runs:     make([]run, pages),
		idle:     newRecency(pages),
	}
}

// branch is the hash that a run is filed under: the page that it follows (or the salt) and its first page's tokens.
func branch(before int32, salt uint64, tokens []int32) uint64 {
	if before != none {
		return digest(uint64(before)+1, tokens)
	}
	return digest(^salt, tokens)
}

func (x *radix) Find(before int32, salt uint64, tokens []int32) int32 {
	if before != none {
		if page := x.next[before]; page != none {
			if x.holds(page, before, salt, tokens) {
				return page
			}
			return none
		}
	}
	return x.lookUp(branch(before, salt, tokens), before, salt, tokens)
}

func (x *radix) Insert(before int32, salt uint64, tokens []int32, page int32) bool {
	x.set(page, before, salt, tokens)
	if before == none {
		x.start(page)
		return true
	}
	if x.next[before] != none {
		x.split(before)
	}
	r := &x.runs[x.first[before]]
	if r.after > 0 {
		r.after++
		x.start(page)
		return true
	}
	x.next[before] = page
	x.first[page] = x.first[before]
	r.last = page
	r.length++
	r.held++
	return true
}

// start makes page, whose contents are set and which is held, a run of its own.
func (x *radix) start(page int32) {
	x.first[page] = page
	x.runs[page] = run{last: page, length: 1, held: 1}
	at := int(page) * x.pageSize
	x.file(page, branch(x.before[page], x.salt[page], x.tokens[at:at+x.pageSize]))
}

// split ends page's run with page and makes the rest a run of its own. The pages up to page are held.
func (x *radix) split(page int32) {
	front := x.first[page]
	rest := x.next[page]
	x.next[page] = none
	n := int32(0)
	for p := rest; p != none; p = x.next[p] {
		x.first[p] = rest
		n++
	}
	whole := x.runs[front]
	length := whole.length - n
	x.runs[front] = run{last: page, length: length, held: length, after: 1}
	x.runs[rest] = run{last: whole.last, length: n, held: whole.held - length, after: whole.after}
	at := int(rest) * x.pageSize
	x.file(rest, branch(page, x.salt[rest], x.tokens[at:at+x.pageSize]))
	if x.idle.has(front) {
		x.idle.replace(front, rest)
	}
}

func (x *radix) Hold(page int32) {
	first := x.first[page]
	r := &x.runs[first]
	if r.held++; r.held == r.length {
		x.idle.remove(first)
	}
}

func (x *radix) Release(page int32) {
	first := x.first[page]
	x.runs[first].held--
	x.idle.put(first)
}

func (x *radix) Evict() int32 {
	first := x.idle.oldest()
	r := &x.runs[first]
	page, before := r.last, x.before[r.last]
	x.first[page] = none
	r.length--
	if r.length > 0 {
		r.last = before
		x.next[before] = none
	} else {
		x.unfile(first)
		if before != none {
			x.runs[x.first[before]].after--
		}
	}
	if r.held == r.length {
		x.idle.remove(first)
	}
	return page
}

func (x *radix) Check(indexed []bool, holders []int32) error {
	if err := x.contents.check(indexed, holders); err != nil {
		return err
	}
	after := make([]int32, len(indexed))
	for i, in := range indexed {
		page := int32(i)
		first := x.first[page]
		if in != (first != none) {
			return fmt.Errorf("kv: page %d: in index %t, in a run %t", page, in, first != none)
		}
		if !in || first != page {
			continue
		}
		if err := x.checkRun(page, holders); err != nil {
			return err
		}
		if before := x.before[page]; before != none {
			if x.next[before] != none {
				return fmt.Errorf("kv: the run from page %d comes after page %d, which is not its run's last", page, before)
			}
			after[x.first[before]]++
		}
	}
	for i, n := range after {
		if x.first[i] == int32(i) && x.runs[i].after != n {
			return fmt.Errorf("kv: the run from page %d counts %d runs after it; it has %d", i, x.runs[i].after, n)
		}
	}
	return checkEvictionOrder(&x.idle, x.before, func(page int32) int32 { return x.first[page] })
}

// checkRun walks one run.
func (x *radix) checkRun(first int32, holders []int32) error {
	r := x.runs[first]
	if x.lookUp(x.hash[first], x.before[first], x.salt[first], x.page(first)) != first {
		return fmt.Errorf("kv: the run from page %d is in the index but is not found by its tokens", first)
	}
	n, last := int32(0), none
	for page := first; page != none; page = x.next[page] {
		if x.first[page] != first || (n > 0 && x.before[page] != last) || (holders[page] > 0) != (n < r.held) {
			return fmt.Errorf("kv: page %d, number %d of the run from page %d: first %d, before %d, %d holders, %d held", page, n, first, x.first[page], x.before[page], holders[page], r.held)
		}
		n++
		last = page
	}
	if n != r.length || last != r.last || x.idle.has(first) != (r.held < r.length) {
		return fmt.Errorf("kv: the run from page %d has %d pages to page %d; it says %+v, listed as idle: %t", first, n, last, r, x.idle.has(first))
	}
	return nil
}
