package kv

import (
	"fmt"
	"slices"
)

// Check returns what is wrong with the account, if the given sequences are all there are; nil if nothing is. It is
// what the account promises, in full, and takes time in the size of the caches: it is for tests.
//
//   - A page is free, or held, or idle (attached to a node and not held); free pages are listed once.
//   - A page has as many holders as sequences have it in their table, none of them twice; likewise a node.
//   - A sequence has exactly the pages that its tokens take, but for some before what its next token looks at, and those of
//     its published pages that it has are those of its nodes.
//   - A node has a page in every group that keeps all tokens, and that is held when the node is.
//   - The index has exactly the nodes marked as indexed, finds each by its tokens, knows which are held, and evicts
//     none before those after it.
func (m *Manager) Check(seqs ...*Seq) error {
	held := make([]int32, len(m.nodes.holders))
	for i, s := range seqs {
		if err := m.checkSeq(s); err != nil {
			return fmt.Errorf("kv: sequence %d: %w", i, err)
		}
		for _, node := range s.nodes {
			held[node]++
		}
	}
	idle := 0
	for node, n := range held {
		if n != m.nodes.holders[node] {
			return fmt.Errorf("kv: node %d is held by %d sequences; the account says %d", node, n, m.nodes.holders[node])
		}
		if n == 0 && m.nodes.indexed[node] {
			idle++
		}
	}
	if idle != m.nodes.idle {
		return fmt.Errorf("kv: %d nodes are idle; the account says %d", idle, m.nodes.idle)
	}
	for i := range m.groups {
		if err := m.checkGroup(i, seqs); err != nil {
			return fmt.Errorf("kv: group %d: %w", i, err)
		}
	}
	return m.index.Check(m.nodes.indexed, m.nodes.holders)
}

// checkSeq holds a sequence to its length and its nodes.
func (m *Manager) checkSeq(s *Seq) error {
	if len(s.nodes) > s.Pages() || s.written > s.length {
		return fmt.Errorf("%d of %d pages published, %d of %d tokens written", len(s.nodes), s.Pages(), s.written, s.length)
	}
	for i := range s.tables {
		g, t := &m.groups[i], &s.tables[i]
		if g.state {
			if err := m.checkState(s, i); err != nil {
				return err
			}
			continue
		}
		if len(t.pages) != m.PagesFor(s.length) || s.pages != len(t.pages) {
			return fmt.Errorf("%d pages of group %d for %d tokens", len(t.pages), i, s.length)
		}
		if need := g.firstNeeded(s.length, m.pageSize); t.first > need {
			return fmt.Errorf("the pages before %d of group %d are given back, and page %d is needed", t.first, i, need)
		}
		for at := t.first; at < len(t.pages); at++ {
			page := t.pages[at]
			if slices.Contains(t.pages[t.first:at], page) {
				return fmt.Errorf("it has page %d of group %d twice", page, i)
			}
			if at < len(s.nodes) && g.page[s.nodes[at]] != page {
				return fmt.Errorf("it published page %d of group %d, and its node has page %d", page, i, g.page[s.nodes[at]])
			}
			if at >= len(s.nodes) && g.node[page] != none {
				return fmt.Errorf("page %d of group %d is attached to a node that the sequence does not hold", page, i)
			}
		}
	}
	return nil
}

// checkState holds a sequence's state to its length: it has one if it has tokens, and a snapshot is of just those.
func (m *Manager) checkState(s *Seq, group int) error {
	g, pages := &m.groups[group], s.tables[group].pages
	if s.stored > 0 {
		if node := m.states.slots[s.stored-1].node; len(pages) > 0 || node == none || m.snapshotAt(s, s.length) != node {
			return fmt.Errorf("it is to go on from the stored state of node %d, which is not that of its %d tokens, and has %d states", node, s.length, len(pages))
		}
		return nil
	}
	if len(pages) != min(s.length, 1) {
		return fmt.Errorf("%d states of group %d for %d tokens", len(pages), group, s.length)
	}
	if len(pages) == 1 && g.node[pages[0]] != none && m.snapshotAt(s, s.length) != g.node[pages[0]] {
		return fmt.Errorf("its state of group %d is a snapshot of other tokens than its %d", group, s.length)
	}
	return nil
}

// checkGroup counts the holders of a group's pages, and which are free and idle.
func (m *Manager) checkGroup(i int, seqs []*Seq) error {
	g := &m.groups[i]
	held, free := make([]int32, len(g.holders)), make([]bool, len(g.holders))
	for _, s := range seqs {
		if len(s.tables) > 0 {
			for _, page := range s.tables[i].pages[s.tables[i].first:] {
				held[page]++
			}
		}
	}
	for _, page := range g.free {
		if free[page] || g.node[page] != none {
			return fmt.Errorf("free page %d is listed twice or attached to a node", page)
		}
		free[page] = true
	}
	idle := m.checkStored(i, free)
	for page, n := range held {
		node := g.node[page]
		attached := node != none
		if n != g.holders[page] {
			return fmt.Errorf("page %d is held by %d sequences; the account says %d", page, n, g.holders[page])
		}
		if n == 0 && attached {
			idle++
		}
		if (n == 0 && !attached) != free[page] {
			return fmt.Errorf("page %d: %d holders, attached %t, free %t", page, n, attached, free[page])
		}
		if attached && (!m.nodes.indexed[node] || g.page[node] != int32(page)) {
			return fmt.Errorf("page %d is attached to node %d, in the index %t, which has page %d", page, node, m.nodes.indexed[node], g.page[node])
		}
		if g.lru && g.recent.has(int32(page)) != (n == 0 && attached) {
			return fmt.Errorf("page %d: %d holders, attached %t, listed as idle %t", page, n, attached, g.recent.has(int32(page)))
		}
	}
	if idle != g.idle {
		return fmt.Errorf("%d pages are idle; the account says %d", idle, g.idle)
	}
	for node, in := range m.nodes.indexed {
		page := g.page[node]
		switch {
		case page == none && in && !g.lru:
			return fmt.Errorf("node %d has no page", node)
		case page != none && g.node[page] != int32(node):
			return fmt.Errorf("node %d has page %d, which is attached to node %d", node, page, g.node[page])
		case page != none && !g.lru && (m.nodes.holders[node] > 0) != (g.holders[page] > 0):
			return fmt.Errorf("node %d has %d holders and its page %d has %d", node, m.nodes.holders[node], page, g.holders[page])
		}
	}
	return nil
}

// checkStored marks a group's pages that states are stored in as not to be free, and counts those that can be given out.
func (m *Manager) checkStored(group int, free []bool) (idle int) {
	x := &m.states
	if x.store != group {
		return 0
	}
	for _, s := range x.slots {
		for _, page := range s.pages {
			if s.node != none {
				free[page] = true // as a free page it is not held, and attached to no node
			}
		}
		if s.node != none && s.holders == 0 {
			idle += x.each
		}
	}
	return idle
}

// page is the tokens of a node.
func (c *contents) words(node int32) []int32 {
	return c.tokens[int(node)*c.pageSize : (int(node)+1)*c.pageSize]
}

// check holds the links between nodes to the nodes that should be indexed.
func (c *contents) check(indexed []bool, holders []int32) error {
	for node, in := range indexed {
		before := c.before[node]
		if !in || before == none {
			continue
		}
		if !indexed[before] {
			return fmt.Errorf("kv: node %d is in the index and the node before it, %d, is not", node, before)
		}
		if holders[node] > 0 && holders[before] == 0 {
			return fmt.Errorf("kv: node %d is held and the node before it, %d, is not", node, before)
		}
	}
	return nil
}

// checkEvictionOrder reports an entry of the list that is older than one that comes after it in a text. entry turns
// a node into the list's id for it.
func checkEvictionOrder(list *recency, before []int32, entry func(node int32) int32) error {
	seen := map[int32]bool{}
	for id := list.oldest(); id != none && id != list.end(); id = list.newer[id] {
		if b := before[id]; b != none && seen[entry(b)] {
			return fmt.Errorf("kv: node %d would be evicted before node %d, which comes after it", b, id)
		}
		seen[id] = true
	}
	return nil
}
