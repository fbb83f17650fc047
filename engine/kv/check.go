package kv

import (
	"fmt"
	"slices"
)

// Check returns what is wrong with the account, if the given sequences are all there are; nil if nothing is. It is
// what the account promises, in full, and takes time in the size of the pool: it is for tests.
//
//   - A page is free, or held, or idle (indexed and not held); free pages are listed once.
//   - A page has as many holders as sequences have it in their table, none of them twice.
//   - A sequence has exactly the pages that its tokens take, and its published pages are indexed.
//   - The index has exactly the pages marked as indexed, finds each by its tokens, knows which are held, and evicts
//     no page before those after it.
func (p *Pool) Check(seqs ...*Seq) error {
	holders := make([]int32, p.Pages())
	for i, s := range seqs {
		if len(s.pages) != p.PagesFor(s.length) {
			return fmt.Errorf("kv: sequence %d has %d pages for %d tokens", i, len(s.pages), s.length)
		}
		if s.published > len(s.pages) || s.settled > s.length {
			return fmt.Errorf("kv: sequence %d: %d of %d pages published, %d of %d tokens settled", i, s.published, len(s.pages), s.settled, s.length)
		}
		for at, page := range s.pages {
			if slices.Contains(s.pages[:at], page) {
				return fmt.Errorf("kv: sequence %d has page %d twice", i, page)
			}
			if at < s.published && !p.indexed[page] {
				return fmt.Errorf("kv: sequence %d published page %d, which is not in the index", i, page)
			}
			holders[page]++
		}
	}
	free := make([]bool, p.Pages())
	for _, page := range p.free {
		if free[page] || p.indexed[page] {
			return fmt.Errorf("kv: free page %d is listed twice or in the index", page)
		}
		free[page] = true
	}
	idle := 0
	for page, n := range holders {
		if n != p.holders[page] {
			return fmt.Errorf("kv: page %d is held by %d sequences; the account says %d", page, n, p.holders[page])
		}
		if n == 0 && p.indexed[page] {
			idle++
		}
		if (n == 0 && !p.indexed[page]) != free[page] {
			return fmt.Errorf("kv: page %d: %d holders, in index %t, free %t", page, n, p.indexed[page], free[page])
		}
	}
	if idle != p.idle {
		return fmt.Errorf("kv: %d pages are idle; the account says %d", idle, p.idle)
	}
	return p.index.Check(p.indexed, p.holders)
}

// page is the tokens of one page.
func (c *contents) page(page int32) []int32 {
	return c.tokens[int(page)*c.pageSize : (int(page)+1)*c.pageSize]
}

// check holds the links between pages to the pages that should be indexed.
func (c *contents) check(indexed []bool, holders []int32) error {
	for page, in := range indexed {
		before := c.before[page]
		if !in || before == none {
			continue
		}
		if !indexed[before] {
			return fmt.Errorf("kv: page %d is in the index and the page before it, %d, is not", page, before)
		}
		if holders[page] > 0 && holders[before] == 0 {
			return fmt.Errorf("kv: page %d is held and the page before it, %d, is not", page, before)
		}
	}
	return nil
}

// checkEvictionOrder reports an entry of the list that is older than one that comes after it in a text. entry turns
// a page into the list's id for it.
func checkEvictionOrder(list *recency, before []int32, entry func(page int32) int32) error {
	seen := map[int32]bool{}
	for id := list.oldest(); id != none && id != list.end(); id = list.newer[id] {
		if b := before[id]; b != none && seen[entry(b)] {
			return fmt.Errorf("kv: page %d would be evicted before page %d, which comes after it", b, id)
		}
		seen[id] = true
	}
	return nil
}
