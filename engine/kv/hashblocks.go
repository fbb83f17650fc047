package kv

import "fmt"

// hashBlocks is an index in which every page stands for itself: a hash table from the hash of all tokens up to a
// page's end (chained: the hash of the page before, then this page's tokens) to the page. vLLM's prefix caching works
// so; this one also compares the tokens, and evicts no page before those after it.
type hashBlocks struct {
	contents
	after []int32 // per page: how many pages of the index come right after it
	idle  recency // pages without a holder, by release
}

// HashBlocks is the index by page.
func HashBlocks(pages, pageSize int) Index {
	return &hashBlocks{
		contents: newContents(pages, pageSize),
		after:    make([]int32, pages),
		idle:     newRecency(pages),
	}
}

func (x *hashBlocks) chained(before int32, salt uint64, tokens []int32) uint64 {
	if before != none {
		return digest(x.hash[before], tokens)
	}
	return digest(salt, tokens)
}

func (x *hashBlocks) Find(before int32, salt uint64, tokens []int32) int32 {
	return x.lookUp(x.chained(before, salt, tokens), before, salt, tokens)
}

func (x *hashBlocks) Insert(before int32, salt uint64, tokens []int32, page int32) bool {
	x.set(page, before, salt, tokens)
	x.file(page, x.chained(before, salt, tokens))
	if before != none {
		x.after[before]++
	}
	return true
}

func (x *hashBlocks) Hold(page int32)    { x.idle.remove(page) }
func (x *hashBlocks) Release(page int32) { x.idle.put(page) }

func (x *hashBlocks) Evict() int32 {
	page := x.idle.oldest()
	x.idle.remove(page)
	x.unfile(page)
	if before := x.before[page]; before != none {
		x.after[before]--
	}
	return page
}

func (x *hashBlocks) Check(indexed []bool, holders []int32) error {
	if err := x.contents.check(indexed, holders); err != nil {
		return err
	}
	after := make([]int32, len(indexed))
	for page, in := range indexed {
		if x.idle.has(int32(page)) != (in && holders[page] == 0) {
			return fmt.Errorf("kv: page %d: in index %t, %d holders, listed as idle: %t", page, in, holders[page], x.idle.has(int32(page)))
		}
		if !in {
			continue
		}
		if x.lookUp(x.hash[page], x.before[page], x.salt[page], x.page(int32(page))) != int32(page) {
			return fmt.Errorf("kv: page %d is in the index but is not found by its tokens", page)
		}
		if x.before[page] != none {
			after[x.before[page]]++
		}
	}
	for page, n := range after {
		if indexed[page] && x.after[page] != n {
			return fmt.Errorf("kv: page %d counts %d pages after it; it has %d", page, x.after[page], n)
		}
	}
	return checkEvictionOrder(&x.idle, x.before, func(page int32) int32 { return page })
}
