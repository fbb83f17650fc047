package kv

import (
	"fmt"
	"math"
)

// none is no page.
const none = int32(-1)

// Pool is the account of one cache memory. It is used by one goroutine. After New it allocates nothing, but for the
// growth of the sequences' own tables; every operation takes time in the pages it touches.
type Pool struct {
	pageSize int
	holders  []int32 // per page: how many sequences hold it
	indexed  []bool  // per page: the index has it
	free     []int32 // pages that nobody holds and the index has not; the last is given out next
	idle     int     // pages that nobody holds and the index has
	index    Index
	stats    Stats
}

// Stats counts what has happened since New.
type Stats struct {
	Queried int64 // prompt tokens that were looked for in the index
	Found   int64 // of those, tokens whose pages it had
	Evicted int64 // pages taken from the index to be used again
}

// Copy asks for the contents of one page to be copied to another.
type Copy struct{ From, To int32 }

// New returns the account of a cache of so many pages of pageSize tokens. index is Radix, HashBlocks or None.
func New(pages, pageSize int, index func(pages, pageSize int) Index) (*Pool, error) {
	if pages < 1 || pageSize < 1 || pages > math.MaxInt32/pageSize {
		return nil, fmt.Errorf("kv: a cache of %d pages of %d tokens; both must be at least 1, and slots must fit 32 bits", pages, pageSize)
	}
	p := &Pool{
		pageSize: pageSize,
		holders:  make([]int32, pages),
		indexed:  make([]bool, pages),
		free:     make([]int32, pages),
		index:    index(pages, pageSize),
	}
	for i := range p.free {
		p.free[i] = int32(pages - 1 - i) // page 0 is given out first
	}
	return p, nil
}

// Pages is the number of pages, used or not.
func (p *Pool) Pages() int { return len(p.holders) }

// PageSize is the number of tokens in a page.
func (p *Pool) PageSize() int { return p.pageSize }

// Available is the number of pages that can be given out now: the free ones and the idle ones.
func (p *Pool) Available() int { return len(p.free) + p.idle }

// Idle is the number of pages that are kept only because the index knows their tokens.
func (p *Pool) Idle() int { return p.idle }

// Stats returns the counts so far.
func (p *Pool) Stats() Stats { return p.stats }

// PagesFor is the number of pages that so many tokens take.
func (p *Pool) PagesFor(tokens int) int { return (tokens + p.pageSize - 1) / p.pageSize }

// Flush empties the index of the pages that no sequence holds: they are free then, and what they held is forgotten.
func (p *Pool) Flush() {
	for p.idle > 0 {
		p.free = append(p.free, p.evict())
	}
}

// take gives out a page to one holder. There must be one: Available() > 0.
func (p *Pool) take() int32 {
	var page int32
	if n := len(p.free); n > 0 {
		page = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		page = p.evict()
		p.stats.Evicted++
	}
	p.holders[page] = 1
	return page
}

func (p *Pool) evict() int32 {
	page := p.index.Evict()
	p.indexed[page] = false
	p.idle--
	return page
}

// hold adds a holder to a page that has one or is idle.
func (p *Pool) hold(page int32) {
	if p.holders[page]++; p.holders[page] == 1 {
		p.idle--
		p.index.Hold(page)
	}
}

// release takes a holder off a page.
func (p *Pool) release(page int32) {
	if p.holders[page]--; p.holders[page] > 0 {
		return
	}
	if p.indexed[page] {
		p.idle++
		p.index.Release(page)
		return
	}
	p.free = append(p.free, page)
}

// shared reports whether writing to a page would be seen by anyone but its one holder.
func (p *Pool) shared(page int32) bool { return p.holders[page] > 1 || p.indexed[page] }
