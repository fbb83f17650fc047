package kv

// states is the snapshots of a recurrent group that are kept for texts that begin alike. A kept state lies in its own page of the group or, so that pages and states
// share one memory, is stored in pages of the group that keeps all tokens (as many as its bytes take). What is evicted when pages run out is what is worth least: the
// seconds that computing its tokens again would take, by its bytes and by how long ago it was of use.
type states struct {
	group int // the recurrent one; none: there is none
	store int // the group that keeps all tokens
	each  int // pages of it that a stored state takes; 0: kept states stay in their own pages
	price func(from, to int) float64

	at    []int32 // per node: the slot of its stored state, or none
	used  []bool  // per node: a sequence has gone on from its state
	since []int64 // per node: when its state was made or last gone on from
	gap   []int32 // per node with a state: nodes from the last state before it on, as they were when that was last counted
	now   int64   // requests so far
	kept  []int32 // nodes with a state, in any order
	place []int32 // per node: its place in kept, or none

	recounted int // states whose gap was counted again

	slots   []storedState
	free    []int32 // slots
	dropped bool    // states that lose their page are not stored: the copies would come too late
}

// storedState is a state in pages of another group.
type storedState struct {
	node    int32
	pages   []int32
	holders int // sequences that will go on from it
}

func newStates(o Options, nodes int) states {
	x := states{group: -1, store: -1, price: o.Price, each: o.StatePages}
	for i, g := range o.Groups {
		if g.Recurrent && x.group < 0 {
			x.group = i
		} else if !g.Recurrent && g.Window == 0 && x.store < 0 {
			x.store = i
		}
	}
	if x.group < 0 {
		return x
	}
	x.at, x.place = filled(nodes, none), filled(nodes, none)
	x.used, x.since, x.gap = make([]bool, nodes), make([]int64, nodes), make([]int32, nodes)
	if x.store < 0 {
		x.each = 0
	}
	if x.each > 0 {
		x.slots = make([]storedState, o.Groups[x.store].Pages/x.each)
		for i := range x.slots {
			x.slots[i] = storedState{none, make([]int32, x.each), 0}
			x.free = append(x.free, int32(len(x.slots)-1-i))
		}
	}
	return x
}

// SetPrice says what computing a text's tokens [from, to) takes, in any unit; before, their number counts.
func (m *Manager) SetPrice(price func(from, to int) float64) { m.states.price = price }

// Kept is the number of states that are kept, and how many of them are stored in pages of the group that keeps all tokens.
func (m *Manager) Kept() (states, stored int) {
	return len(m.states.kept), len(m.states.slots) - len(m.states.free)
}

// hasState reports whether a node has a state in every recurrent group.
func (m *Manager) hasState(node int32) bool { return m.states.place[node] != none }

// keep makes a held page of the recurrent group the state of a node.
func (m *Manager) keep(page, node int32) {
	x := &m.states
	m.groups[x.group].attach(page, node)
	x.place[node] = int32(len(x.kept))
	x.kept = append(x.kept, node)
	x.used[node], x.since[node], x.gap[node] = false, x.now, m.gapOf(node)
}

// gapOf counts the nodes of a text from the last state before a node's on.
func (m *Manager) gapOf(node int32) (n int32) {
	n = 1
	for before := m.index.Before(node); before != none && !m.hasState(before); before = m.index.Before(before) {
		n++
	}
	return n
}

// idleState reports whether a node's state is held by no sequence.
func (m *Manager) idleState(node int32) bool {
	x := &m.states
	if slot := x.at[node]; slot != none {
		return x.slots[slot].holders == 0
	}
	g := &m.groups[x.group]
	return g.holders[g.page[node]] == 0
}

// restore has the sequence go on from a node's state with the next Append, which copies it.
func (m *Manager) restore(s *Seq, node int32) {
	x := &m.states
	g, t := &m.groups[x.group], &s.tables[x.group]
	x.used[node], x.since[node] = true, x.now
	slot := x.at[node]
	if slot == none {
		g.hold(g.page[node])
	} else {
		m.holdStored(slot)
	}
	m.leaveState(s)
	if slot == none {
		t.pages = append(t.pages, g.page[node])
	} else {
		s.stored = slot + 1
	}
}

// leaveState lets go of the sequence's state, wherever it is.
func (m *Manager) leaveState(s *Seq) {
	if m.states.group < 0 {
		return
	}
	t := &s.tables[m.states.group]
	for _, page := range t.pages {
		m.groups[m.states.group].release(page)
	}
	t.pages = t.pages[:0]
	if s.stored > 0 {
		m.releaseStored(s.stored - 1)
		s.stored = 0
	}
}

// holdStored and releaseStored count who will go on from a stored state: its pages cannot be given out as long.
func (m *Manager) holdStored(slot int32) {
	x := &m.states
	if x.slots[slot].holders++; x.slots[slot].holders == 1 {
		m.groups[x.store].idle -= x.each
	}
}

func (m *Manager) releaseStored(slot int32) {
	x := &m.states
	if x.slots[slot].holders--; x.slots[slot].holders == 0 {
		m.groups[x.store].idle += x.each
	}
}

// fetch gives a sequence that goes on from a stored state a page with it.
func (m *Manager) fetch(s *Seq) {
	x := &m.states
	if s.stored == 0 {
		return
	}
	slot, t := s.stored-1, &s.tables[x.group]
	page := m.take(x.group)
	m.copies = append(m.copies, Copy{Group: x.group, From: none, To: page, Store: x.store, Pages: append([]int32(nil), x.slots[slot].pages...)})
	t.pages = append(t.pages, page)
	m.releaseStored(slot)
	s.stored = 0
	m.stats.Fetched++
}

// supersede gives a node's state back where no sequence has gone on from it.
func (m *Manager) supersede(node int32) {
	if m.hasState(node) && !m.states.used[node] && m.idleState(node) {
		m.unseen(func() { m.drop(node) }) // the newer one is worth more
	}
}

// drop gives up a node's state, which no sequence holds, and the end of its text, as far as it leads to no other state.
func (m *Manager) drop(node int32) {
	m.forget(node)
	for node != none && m.nodes.holders[node] == 0 && !m.hasState(node) && !m.index.After(node) {
		before := m.index.Before(node)
		m.evict(node)
		node = before
	}
}

// forget gives up a node's state alone.
func (m *Manager) forget(node int32) {
	x := &m.states
	g := &m.groups[x.group]
	if slot := x.at[node]; slot != none {
		m.unstore(slot)
	} else {
		page := g.page[node]
		m.leaving(x.group, page)
		g.detach(page)
		g.free = append(g.free, page)
	}
	last := x.kept[len(x.kept)-1]
	x.kept[x.place[node]], x.place[last] = last, x.place[node]
	x.kept, x.place[node] = x.kept[:len(x.kept)-1], none
}

// unstore frees the pages of a stored state.
func (m *Manager) unstore(slot int32) {
	x := &m.states
	s, g := &x.slots[slot], &m.groups[x.store]
	g.free = append(g.free, s.pages...)
	g.idle -= x.each
	x.at[s.node], s.node = none, none
	x.free = append(x.free, slot)
	m.stats.Evicted += int64(x.each)
}

// dropStates gives up all states that no sequence holds.
func (m *Manager) dropStates() {
	for i := len(m.states.kept) - 1; i >= 0; i-- {
		if i < len(m.states.kept) && m.idleState(m.states.kept[i]) {
			m.drop(m.states.kept[i])
		}
	}
}
