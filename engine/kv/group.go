package kv

// group is the pages of one cache group. A page is free, or held by sequences, or attached to a node of the index, or both
// of the latter; one that is attached and not held is idle.
type group struct {
	window  int
	state   bool    // recurrent
	lru     bool    // its pages are evicted by themselves; else with their nodes
	holders []int32 // per page: how many sequences hold it
	node    []int32 // per page: the node that it is attached to, or none
	page    []int32 // per node: the page attached to it, or none
	free    []int32 // the last is given out next
	idle    int     // pages
	recent  recency // idle pages by their release, if they are evicted by themselves; else the index keeps the order
}

func newGroup(o Group, nodes int) group {
	g := group{
		window:  o.Window,
		state:   o.Recurrent,
		lru:     o.Window > 0 || o.Recurrent,
		holders: make([]int32, o.Pages),
		node:    filled(o.Pages, none),
		page:    filled(nodes, none),
		free:    make([]int32, o.Pages),
	}
	for i := range g.free {
		g.free[i] = int32(o.Pages - 1 - i) // page 0 is given out first
	}
	if g.lru {
		g.recent = newRecency(o.Pages)
	}
	return g
}

// take gives out a page of a group to one holder. There must be one available.
func (m *Manager) take(i int) int32 {
	g := &m.groups[i]
	var page int32
	switch n := len(g.free); {
	case n > 0:
		page = g.free[n-1]
		g.free = g.free[:n-1]
	case g.state:
		page = m.vacate()
		m.stats.Evicted++
	case g.lru:
		m.leaving(i, g.recent.oldest())
		page = g.detachOldest()
		m.stats.Evicted++
	default:
		if !m.room(none) {
			panic("kv: a page was asked for, and none is free or idle")
		}
		m.stats.Evicted++
		return m.take(i)
	}
	g.holders[page] = 1
	return page
}

// hold adds a holder to a page that has one or is idle.
func (g *group) hold(page int32) {
	if g.holders[page]++; g.holders[page] == 1 {
		g.idle--
		if g.lru {
			g.recent.remove(page)
		}
	}
}

// release takes a holder off a page.
func (g *group) release(page int32) {
	if g.holders[page]--; g.holders[page] > 0 {
		return
	}
	if g.node[page] == none {
		g.free = append(g.free, page)
		return
	}
	g.idle++
	if g.lru {
		g.recent.put(page)
	}
}

// attach makes a held page the one that a node has in this group.
func (g *group) attach(page, node int32) {
	g.node[page], g.page[node] = node, page
}

// detach takes an idle page from its node. It is nowhere then.
func (g *group) detach(page int32) {
	g.page[g.node[page]], g.node[page] = none, none
	g.idle--
	if g.lru {
		g.recent.remove(page)
	}
}

// detachOldest detaches the page that was released first of the idle ones, of a group whose pages are evicted by themselves. There
// must be one.
func (g *group) detachOldest() int32 {
	page := g.recent.oldest()
	g.detach(page)
	return page
}

// shared reports whether writing to a page would be seen by others than its one holder.
func (g *group) shared(page int32) bool { return g.holders[page] > 1 || g.node[page] != none }

// firstNeeded is the first page of a sequence of so many tokens that the next token may look at.
func (g *group) firstNeeded(tokens, pageSize int) int {
	if g.window == 0 {
		return 0
	}
	return max(0, tokens-g.window+1) / pageSize
}
