package kv

// nodes is the entries of the index. A node is a page's worth of tokens after the node before it; which pages of the groups
// hold their keys and values, each group knows. In a group that keeps all tokens every node of the index has a page, and
// a sequence that holds the node holds the page; in one with a window a node may have lost its page.
type nodes struct {
	holders []int32  // per node: how many sequences begin with it and those before it
	indexed []bool   // per node: the index has it
	depth   []int32  // per node of the index: how many a text has up to it, itself included
	hash    []uint64 // per node of the index, if it is watched: see Event
	key     []Key    // per node of the index, if evicted pages are kept elsewhere: see Offload
	free    []int32  // nodes that the index has not
	idle    int      // nodes of the index without holders
}

func newNodes(n int) nodes {
	x := nodes{holders: make([]int32, n), indexed: make([]bool, n), depth: make([]int32, n), free: make([]int32, n)}
	for i := range x.free {
		x.free[i] = int32(n - 1 - i)
	}
	return x
}

// insert makes a node of a sequence's next full page and enters it into the index; none if the index does not take it, or there
// are too few nodes.
func (m *Manager) insert(before int32, salt uint64, tokens []int32) int32 {
	x := &m.nodes
	if len(x.free) == 0 {
		if x.idle == 0 {
			return none
		}
		m.evictNode()
	}
	last := len(x.free) - 1
	node := x.free[last]
	if !m.index.Insert(before, salt, tokens, node) {
		return none
	}
	x.free = x.free[:last]
	x.indexed[node], x.holders[node], x.depth[node] = true, 1, 1
	if before != none {
		x.depth[node] += x.depth[before]
	}
	if m.watch != nil {
		m.stored(node, before, salt, tokens)
	}
	if m.nodes.key != nil {
		m.keyOf(node, before, salt, tokens)
	}
	return node
}

func (m *Manager) holdNode(node int32) {
	x := &m.nodes
	if x.holders[node]++; x.holders[node] == 1 {
		x.idle--
		m.index.Hold(node)
	}
}

func (m *Manager) releaseNode(node int32) {
	x := &m.nodes
	if x.holders[node]--; x.holders[node] == 0 {
		x.idle++
		m.index.Release(node)
	}
}

// evictNode evicts the idle node that the index names. There must be one.
func (m *Manager) evictNode() {
	m.evict(m.index.Oldest())
}

// evict takes an idle node without any after it out of the index, and frees its pages and its state.
func (m *Manager) evict(node int32) {
	if m.states.group >= 0 && m.hasState(node) {
		m.forget(node)
	}
	m.index.Evict(node)
	if m.watch != nil {
		m.watch(Event{Kind: Removed, Hash: m.nodes.hash[node]})
	}
	m.nodes.indexed[node] = false
	m.nodes.idle--
	m.nodes.free = append(m.nodes.free, node)
	for i := range m.groups {
		g := &m.groups[i]
		if page := g.page[node]; page != none {
			m.leaving(i, page)
			g.detach(page)
			g.free = append(g.free, page)
		}
	}
}
