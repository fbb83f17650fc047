package kv

import "math"

// worth is what a node's state saves: what computing the tokens from the last state before it on takes, divided by the pages that it takes, with those behind that
// state if no text goes on from it and they are kept for it alone, and by the requests since it was of use, after which it is about as long until it is again.
func (m *Manager) worth(node int32) float64 {
	x := &m.states
	pages := int(x.gap[node])
	size := max(x.each, 1)
	if x.each > 0 && !m.index.After(node) {
		size += pages
	}
	to := int(m.nodes.depth[node]) * m.pageSize
	from := to - pages*m.pageSize
	saved := float64(to - from)
	if x.price != nil {
		if seconds := x.price(from, to); seconds > 0 {
			saved = seconds
		}
	}
	return saved / float64(size) / float64(x.now-x.since[node]+1)
}

// cheapest is the node whose idle state is worth least, of those that wanted says yes to; none if there is none. What lies before states changes seldom, and walking
// through long texts takes time: it is counted again for the one that is found, and for another one each time.
func (m *Manager) cheapest(wanted func(node int32) bool) int32 {
	x := &m.states
	if n := len(x.kept); n > 0 {
		node := x.kept[x.recounted%n]
		x.gap[node] = m.gapOf(node)
		x.recounted++
	}
	for {
		least, found := math.Inf(1), none
		for _, node := range x.kept {
			if !m.idleState(node) || !wanted(node) {
				continue
			}
			if w := m.worth(node); w < least {
				least, found = w, node
			}
		}
		if found == none {
			return none
		}
		now := m.gapOf(found)
		if now == x.gap[found] {
			return found
		}
		x.gap[found] = now
	}
}

// vacate takes the page of a kept state, to be given out: the state is stored in pages of the group that keeps all tokens, if others there are worth less, or dropped.
func (m *Manager) vacate() int32 {
	x := &m.states
	g := &m.groups[x.group]
	node := g.node[g.recent.oldest()]
	if x.each == 0 || x.dropped {
		node = m.cheapest(func(n int32) bool { return x.at[n] == none })
		m.drop(node)
	} else if !m.storeState(node) {
		m.drop(node)
	}
	last := len(g.free) - 1
	page := g.free[last]
	g.free = g.free[:last]
	return page
}

// storeState moves a node's state to pages of the group that keeps all tokens; false if none of them is worth less.
func (m *Manager) storeState(node int32) bool {
	x := &m.states
	g, to := &m.groups[x.group], &m.groups[x.store]
	for len(to.free) < x.each {
		if !m.room(node) {
			return false
		}
	}
	slot := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	s := &x.slots[slot]
	s.node = node
	n := len(to.free) - x.each
	copy(s.pages, to.free[n:])
	to.free = to.free[:n]
	to.idle += x.each
	page := g.page[node]
	m.copies = append(m.copies, Copy{Group: x.group, From: page, To: none, Store: x.store, Pages: append([]int32(nil), s.pages...)})
	g.detach(page)
	g.free = append(g.free, page)
	x.at[node] = slot
	m.stats.Stored++
	return true
}

// room frees a page or more of the group that keeps all tokens: the end of the oldest text behind its last state, or else the state that is worth least with what is
// kept for it alone. It frees none, and reports so, where that is the one of node keep.
func (m *Manager) room(keep int32) bool {
	x := &m.states
	var end int32 = none
	if m.nodes.idle > 0 {
		end = m.index.Oldest()
	}
	if x.group < 0 || end != none && !m.hasState(end) {
		m.evictNode()
		return true
	}
	node := m.cheapest(func(n int32) bool {
		return n == keep || x.at[n] != none || m.nodes.holders[n] == 0 && !m.index.After(n)
	})
	switch {
	case node == keep && node != none:
		return false
	case node != none:
		m.drop(node)
		return true
	case end != none:
		m.evictNode()
		return true
	}
	return false
}
