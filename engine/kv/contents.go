package kv

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// contents is what both indexes know of each of their nodes, and a hash table to find them by it. Tables and chains
// are arrays by node, made once: an index of n nodes never has more than n entries.
type contents struct {
	pageSize int
	tokens   []int32  // [nodes, pageSize]
	before   []int32  // per node: the node before it, or none
	salt     []uint64 // per node
	hash     []uint64 // per node: what it was filed under
	buckets  []int32  // by hash: the first node filed there, or none
	chain    []int32  // per node: the next node of its bucket, or none
	seed     maphash.Seed
	key      []byte // of digest, to be used again
}

func newContents(nodes, pageSize int) contents {
	size := 1
	for size < nodes {
		size *= 2
	}
	return contents{
		pageSize: pageSize,
		tokens:   make([]int32, nodes*pageSize),
		before:   filled(nodes, none),
		salt:     make([]uint64, nodes),
		hash:     make([]uint64, nodes),
		buckets:  filled(size, none),
		chain:    filled(nodes, none),
		seed:     maphash.MakeSeed(),
	}
}

func filled(n int, value int32) []int32 { return slices.Repeat([]int32{value}, n) }

// set writes down what a node holds.
func (c *contents) set(node, before int32, salt uint64, tokens []int32) {
	copy(c.tokens[int(node)*c.pageSize:], tokens)
	c.before[node], c.salt[node] = before, salt
}

// Before implements Index.
func (c *contents) Before(node int32) int32 { return c.before[node] }

// holds reports whether node holds tokens after the node before. It is asked after every look-up by hash.
func (c *contents) holds(node, before int32, salt uint64, tokens []int32) bool {
	at := int(node) * c.pageSize
	return c.before[node] == before && c.salt[node] == salt && slices.Equal(c.tokens[at:at+c.pageSize], tokens)
}

// file enters a node, whose contents are set, under a hash.
func (c *contents) file(node int32, hash uint64) {
	bucket := &c.buckets[hash&uint64(len(c.buckets)-1)]
	c.hash[node] = hash
	c.chain[node] = *bucket
	*bucket = node
}

// unfile takes a node out of its bucket.
func (c *contents) unfile(node int32) {
	at := &c.buckets[c.hash[node]&uint64(len(c.buckets)-1)]
	for *at != node {
		at = &c.chain[*at]
	}
	*at = c.chain[node]
	c.chain[node] = none
}

// lookUp returns the node filed under hash that holds tokens after the node before, or none.
func (c *contents) lookUp(hash uint64, before int32, salt uint64, tokens []int32) int32 {
	node := c.buckets[hash&uint64(len(c.buckets)-1)]
	for node != none && (c.hash[node] != hash || !c.holds(node, before, salt, tokens)) {
		node = c.chain[node]
	}
	return node
}

// digest mixes tokens into a hash under a secret of the process: equal digests cost time, never correctness, and prompts cannot be made
// whose nodes all come into one bucket.
func (c *contents) digest(hash uint64, tokens []int32) uint64 {
	c.key = binary.LittleEndian.AppendUint64(c.key[:0], hash)
	for _, t := range tokens {
		c.key = binary.LittleEndian.AppendUint32(c.key, uint32(t))
	}
	return maphash.Bytes(c.seed, c.key)
}
