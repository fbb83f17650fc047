package kv

import "fmt"

// radix is an index in which a run of nodes that no text leaves half-way is one entry, as an edge of a radix tree: within a
// run, finding the next node is comparing tokens with it, without hashing, and recency is kept by run. Runs are split
// only when a text is inserted that leaves one half-way; they are never joined again.
//
// A run is known by its first node. Sequences hold beginnings of texts, so the held nodes of a run are its beginning
// and the idle ones its end. A run is listed by recency while it has idle nodes, and the end of the oldest is evicted
// first: it has no run after it, since letting go of that one came before.
type radix struct {
	contents         // only first nodes of runs are filed by hash
	next     []int32 // per node: the node after it in its run, or none
	first    []int32 // per node: the first node of its run
	runs     []run   // by first node
	idle     recency // runs with idle nodes, by their last release
}

type run struct {
	last   int32 // its last node
	length int32 // nodes
	held   int32 // of those, nodes with a holder: the first so many
	after  int32 // runs that come after its last node
}

// Radix is the index by runs of nodes.
func Radix(nodes, pageSize int) Index {
	return &radix{
		contents: newContents(nodes, pageSize),
		next:     filled(nodes, none),
		first:    filled(nodes, none),
		runs:     make([]run, nodes),
		idle:     newRecency(nodes),
	}
}

// branch is the hash that a run is filed under: the node that it follows (or the salt) and its first node's tokens.
func (x *radix) branch(before int32, salt uint64, tokens []int32) uint64 {
	if before != none {
		return x.digest(uint64(before)+1, tokens)
	}
	return x.digest(^salt, tokens)
}

func (x *radix) Find(before int32, salt uint64, tokens []int32) int32 {
	if before != none {
		if node := x.next[before]; node != none {
			if x.holds(node, before, salt, tokens) {
				return node
			}
			return none
		}
	}
	return x.lookUp(x.branch(before, salt, tokens), before, salt, tokens)
}

func (x *radix) Insert(before int32, salt uint64, tokens []int32, node int32) bool {
	x.set(node, before, salt, tokens)
	if before == none {
		x.start(node)
		return true
	}
	if x.next[before] != none {
		x.split(before)
	}
	r := &x.runs[x.first[before]]
	if r.after > 0 {
		r.after++
		x.start(node)
		return true
	}
	x.next[before] = node
	x.first[node] = x.first[before]
	r.last = node
	r.length++
	r.held++
	return true
}

// start makes node, whose contents are set and which is held, a run of its own.
func (x *radix) start(node int32) {
	x.first[node] = node
	x.runs[node] = run{last: node, length: 1, held: 1}
	at := int(node) * x.pageSize
	x.file(node, x.branch(x.before[node], x.salt[node], x.tokens[at:at+x.pageSize]))
}

// split ends node's run with node and makes the rest a run of its own. The nodes up to node are held.
func (x *radix) split(node int32) {
	front := x.first[node]
	rest := x.next[node]
	x.next[node] = none
	n := int32(0)
	for p := rest; p != none; p = x.next[p] {
		x.first[p] = rest
		n++
	}
	whole := x.runs[front]
	length := whole.length - n
	x.runs[front] = run{last: node, length: length, held: length, after: 1}
	x.runs[rest] = run{last: whole.last, length: n, held: whole.held - length, after: whole.after}
	at := int(rest) * x.pageSize
	x.file(rest, x.branch(node, x.salt[rest], x.tokens[at:at+x.pageSize]))
	if x.idle.has(front) {
		x.idle.replace(front, rest)
	}
}

func (x *radix) Hold(node int32) {
	first := x.first[node]
	r := &x.runs[first]
	if r.held++; r.held == r.length {
		x.idle.remove(first)
	}
}

func (x *radix) Release(node int32) {
	first := x.first[node]
	x.runs[first].held--
	x.idle.put(first)
}

func (x *radix) Oldest() int32 { return x.runs[x.idle.oldest()].last }

func (x *radix) After(node int32) bool {
	return x.next[node] != none || x.runs[x.first[node]].after > 0
}

func (x *radix) Evict(node int32) {
	first, before := x.first[node], x.before[node]
	r := &x.runs[first]
	x.first[node] = none
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
}

func (x *radix) Check(indexed []bool, holders []int32) error {
	if err := x.contents.check(indexed, holders); err != nil {
		return err
	}
	after := make([]int32, len(indexed))
	for i, in := range indexed {
		node := int32(i)
		first := x.first[node]
		if in != (first != none) {
			return fmt.Errorf("kv: node %d: in index %t, in a run %t", node, in, first != none)
		}
		if !in || first != node {
			continue
		}
		if err := x.checkRun(node, holders); err != nil {
			return err
		}
		if before := x.before[node]; before != none {
			if x.next[before] != none {
				return fmt.Errorf("kv: the run from node %d comes after node %d, which is not its run's last", node, before)
			}
			after[x.first[before]]++
		}
	}
	for i, n := range after {
		if x.first[i] == int32(i) && x.runs[i].after != n {
			return fmt.Errorf("kv: the run from node %d counts %d runs after it; it has %d", i, x.runs[i].after, n)
		}
	}
	return checkEvictionOrder(&x.idle, x.before, func(node int32) int32 { return x.first[node] })
}

// checkRun walks one run.
func (x *radix) checkRun(first int32, holders []int32) error {
	r := x.runs[first]
	if x.lookUp(x.hash[first], x.before[first], x.salt[first], x.words(first)) != first {
		return fmt.Errorf("kv: the run from node %d is in the index but is not found by its tokens", first)
	}
	n, last := int32(0), none
	for node := first; node != none; node = x.next[node] {
		if x.first[node] != first || (n > 0 && x.before[node] != last) || (holders[node] > 0) != (n < r.held) {
			return fmt.Errorf("kv: node %d, number %d of the run from node %d: first %d, before %d, %d holders, %d held", node, n, first, x.first[node], x.before[node], holders[node], r.held)
		}
		n++
		last = node
	}
	if n != r.length || last != r.last || x.idle.has(first) != (r.held < r.length) {
		return fmt.Errorf("kv: the run from node %d has %d nodes to node %d; it says %+v, listed as idle: %t", first, n, last, r, x.idle.has(first))
	}
	return nil
}
