package kv

import "slices"

// contents is what both indexes know of each of their pages, and a hash table to find them by it. Tables and chains
// are arrays by page, made once: an index of n pages never has more than n entries.
type contents struct {
	pageSize int
	tokens   []int32  // [pages, pageSize]
	before   []int32  // per page: the page before it, or none
	salt     []uint64 // per page; it decides for first pages, the others have it from those
	hash     []uint64 // per page: what it was filed under
	buckets  []int32  // by hash: the first page filed there, or none
	chain    []int32  // per page: the next page of its bucket, or none
}

func newContents(pages, pageSize int) contents {
	size := 1
	for size < pages {
		size *= 2
	}
	return contents{
		pageSize: pageSize,
		tokens:   make([]int32, pages*pageSize),
		before:   filled(pages, none),
		salt:     make([]uint64, pages),
		hash:     make([]uint64, pages),
		buckets:  filled(size, none),
		chain:    filled(pages, none),
	}
}

func filled(n int, value int32) []int32 { return slices.Repeat([]int32{value}, n) }

// set writes down what a page holds.
func (c *contents) set(page, before int32, salt uint64, tokens []int32) {
	copy(c.tokens[int(page)*c.pageSize:], tokens)
	c.before[page], c.salt[page] = before, salt
}

// holds reports whether page holds tokens after the page before. It is asked after every look-up by hash.
func (c *contents) holds(page, before int32, salt uint64, tokens []int32) bool {
	at := int(page) * c.pageSize
	return c.before[page] == before && c.salt[page] == salt && slices.Equal(c.tokens[at:at+c.pageSize], tokens)
}

// file enters a page, whose contents are set, under a hash.
func (c *contents) file(page int32, hash uint64) {
	bucket := &c.buckets[hash&uint64(len(c.buckets)-1)]
	c.hash[page] = hash
	c.chain[page] = *bucket
	*bucket = page
}

// unfile takes a page out of its bucket.
func (c *contents) unfile(page int32) {
	at := &c.buckets[c.hash[page]&uint64(len(c.buckets)-1)]
	for *at != page {
		at = &c.chain[*at]
	}
	*at = c.chain[page]
	c.chain[page] = none
}

// lookUp returns the page filed under hash that holds tokens after the page before, or none.
func (c *contents) lookUp(hash uint64, before int32, salt uint64, tokens []int32) int32 {
	page := c.buckets[hash&uint64(len(c.buckets)-1)]
	for page != none && (c.hash[page] != hash || !c.holds(page, before, salt, tokens)) {
		page = c.chain[page]
	}
	return page
}

// digest mixes tokens into a hash. It need not withstand an attacker: equal digests cost time, never correctness.
func digest(hash uint64, tokens []int32) uint64 {
	for _, t := range tokens {
		hash = (hash ^ uint64(uint32(t))) * 0x9e3779b97f4a7c15
		hash ^= hash >> 29
	}
	return hash
}
