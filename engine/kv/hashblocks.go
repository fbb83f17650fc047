package kv

import "fmt"

// hashBlocks is an index in which every node stands for itself: a hash table from the hash of all tokens up to a
// node's end (chained: the hash of the node before, then this node's tokens) to the node. vLLM's prefix caching works
// so; this one also compares the tokens, and evicts no node before those after it.
type hashBlocks struct {
	contents
	after []int32 // per node: how many nodes of the index come right after it
	idle  recency // nodes without a holder, by release
}

// HashBlocks is the index by node.
func HashBlocks(nodes, pageSize int) Index {
	return &hashBlocks{
		contents: newContents(nodes, pageSize),
		after:    make([]int32, nodes),
		idle:     newRecency(nodes),
	}
}

func (x *hashBlocks) chained(before int32, salt uint64, tokens []int32) uint64 {
	if before != none {
		return x.digest(x.hash[before], tokens)
	}
	return x.digest(salt, tokens)
}

func (x *hashBlocks) Find(before int32, salt uint64, tokens []int32) int32 {
	return x.lookUp(x.chained(before, salt, tokens), before, salt, tokens)
}

func (x *hashBlocks) Insert(before int32, salt uint64, tokens []int32, node int32) bool {
	x.set(node, before, salt, tokens)
	x.file(node, x.chained(before, salt, tokens))
	if before != none {
		x.after[before]++
	}
	return true
}

func (x *hashBlocks) Hold(node int32)    { x.idle.remove(node) }
func (x *hashBlocks) Release(node int32) { x.idle.put(node) }

func (x *hashBlocks) Oldest() int32 { return x.idle.oldest() }

func (x *hashBlocks) After(node int32) bool { return x.after[node] > 0 }

func (x *hashBlocks) Evict(node int32) {
	x.idle.remove(node)
	x.unfile(node)
	if before := x.before[node]; before != none {
		x.after[before]--
	}
}

func (x *hashBlocks) Check(indexed []bool, holders []int32) error {
	if err := x.contents.check(indexed, holders); err != nil {
		return err
	}
	after := make([]int32, len(indexed))
	for node, in := range indexed {
		if x.idle.has(int32(node)) != (in && holders[node] == 0) {
			return fmt.Errorf("kv: node %d: in index %t, %d holders, listed as idle: %t", node, in, holders[node], x.idle.has(int32(node)))
		}
		if !in {
			continue
		}
		if x.lookUp(x.hash[node], x.before[node], x.salt[node], x.words(int32(node))) != int32(node) {
			return fmt.Errorf("kv: node %d is in the index but is not found by its tokens", node)
		}
		if x.before[node] != none {
			after[x.before[node]]++
		}
	}
	for node, n := range after {
		if indexed[node] && x.after[node] != n {
			return fmt.Errorf("kv: node %d counts %d nodes after it; it has %d", node, x.after[node], n)
		}
	}
	return checkEvictionOrder(&x.idle, x.before, func(node int32) int32 { return node })
}
