package kv

// Open begins a sequence with the pages that the index has for the beginning of its tokens, and returns how many
// tokens those hold. One token at least is left to compute, since computing it is what gives the first logits. Only
// sequences of equal salt share.
func (m *Manager) Open(s *Seq, salt Salt, tokens []int32) int {
	m.open(s)
	s.salt = salt
	m.states.now++
	m.stats.Queried += int64(len(tokens))
	found := m.Extend(s, tokens)
	s.stranded = len(m.found)*m.pageSize - found
	m.stats.Stranded += int64(s.stranded)
	return found
}

// Stranded is how many tokens more than Open took over the index had, without what goes on from them: a state, or pages of a window.
func (m *Manager) Stranded(s *Seq) int { return s.stranded }

// Extend is Open for a sequence that is under way: if it ends at the end of a page, and the index has come to have
// what follows, it takes that over. It returns how many tokens further that brings it. tokens are all it knows.
func (m *Manager) Extend(s *Seq, tokens []int32) int {
	before, pages := s.length, s.Pages()
	if before%m.pageSize != 0 || len(s.nodes) < pages {
		return 0
	}
	n := m.find(s, s.salt, tokens)
	if m.recurrent && len(m.found) >= n+leastParts {
		s.parts = (pages + len(m.found)) * m.pageSize
	}
	if n == 0 {
		return 0
	}
	s.newest = 0
	for _, node := range m.found[:n] {
		m.holdNode(node)
	}
	s.nodes = append(s.nodes, m.found[:n]...)
	s.length += n * m.pageSize
	s.written, s.pages = s.length, pages+n
	for i := range s.tables {
		g, t := &m.groups[i], &s.tables[i]
		if g.state {
			m.restore(s, m.found[n-1])
			continue
		}
		need := g.firstNeeded(s.length, m.pageSize)
		for at, node := range m.found[:n] {
			page := g.page[node]
			if pages+at < need {
				page = 0 // given back before it was held
			} else {
				g.hold(page)
			}
			t.pages = append(t.pages, page)
		}
		// What the sequence held itself and does not need any more.
		for ; t.first < min(need, pages); t.first++ {
			g.release(t.pages[t.first])
		}
		t.first = max(t.first, need)
	}
	m.stats.Found += int64(s.length - before)
	return s.length - before
}

// leastParts is how many pages the index must know beyond the last state for another to be worth a step that ends there.
const leastParts = 4

// Match is what Open would find, without taking it: the tokens, and how many of their pages are idle now. Those count
// in Available, and would not after Open.
func (m *Manager) Match(salt Salt, tokens []int32) (found int, idle Pages) {
	n := m.find(nil, salt, tokens)
	found = n * m.pageSize
	for i := range m.groups {
		g := &m.groups[i]
		first := g.firstNeeded(found, m.pageSize)
		if g.state {
			first = max(0, n-1)
		}
		for _, node := range m.found[first:n] {
			if g.state && m.states.at[node] != none {
				if m.idleState(node) {
					idle[m.states.store] += m.states.each
				}
				continue
			}
			if g.holders[g.page[node]] == 0 {
				idle[i]++
			}
		}
	}
	return found, idle
}

// find looks for what follows a sequence (nil: an empty one), which ends with a page that is in the index. m.found has the nodes, of
// which the first n can be taken over: after them every group has the pages that the next token looks at.
func (m *Manager) find(s *Seq, salt Salt, tokens []int32) (n int) {
	m.found = m.found[:0]
	last, length := none, 0
	var run Pages // how many pages up to here follow one another, of those that each group has
	if s != nil && s.length > 0 {
		last, length = s.nodes[len(s.nodes)-1], s.length
		for i := range s.tables {
			run[i] = len(s.tables[i].pages) - s.tables[i].first
		}
	}
	for length+m.pageSize < len(tokens) {
		last = m.index.Find(last, salt.page(length+m.pageSize), tokens[length:length+m.pageSize])
		if last == none {
			break
		}
		m.found = append(m.found, last)
		length += m.pageSize
		usable := true
		for i := range m.groups {
			g := &m.groups[i]
			if !g.lru {
				continue
			}
			if g.state {
				usable = usable && m.hasState(last)
				continue
			}
			if run[i]++; g.page[last] == none {
				run[i] = 0
			}
			usable = usable && run[i] >= length/m.pageSize-g.firstNeeded(length, m.pageSize)
		}
		if usable {
			n = len(m.found)
		}
	}
	return n
}

// Publish enters the sequence's full pages into the index, as far as tokens are known. Where the index already has a
// node of the same tokens, because two requests computed them side by side, the sequence takes that one's pages and gives up
// its own, or lends the node the page that it lacks: what the index has stays a tree of which every sequence holds a whole
// branch. It waits with that while the step being planned writes the page, or a fork shares it.
func (m *Manager) Publish(s *Seq, tokens []int32) {
	full := min(s.length, len(tokens)) / m.pageSize
	for len(s.nodes) < full {
		i := len(s.nodes)
		before := none
		if i > 0 {
			before = s.nodes[i-1]
		}
		words, salt := tokens[i*m.pageSize:(i+1)*m.pageSize], s.salt.page((i+1)*m.pageSize)
		node := m.index.Find(before, salt, words)
		if !m.canJoin(s, i, node) {
			return
		}
		if node != none {
			m.holdNode(node)
		} else if node = m.insert(before, salt, words); node == none {
			return
		}
		m.join(s, i, node)
		s.nodes = append(s.nodes, node)
	}
}

// canJoin reports whether the sequence's page number i can be attached to a node (none: a new one), or given up for its.
func (m *Manager) canJoin(s *Seq, i int, node int32) bool {
	for j := range s.tables {
		g, t := &m.groups[j], &s.tables[j]
		if i < t.first || g.state {
			continue
		}
		if g.holders[t.pages[i]] > 1 || node != none && g.page[node] != none && (i+1)*m.pageSize > s.written {
			return false
		}
	}
	return true
}

// join attaches the sequence's page number i to the node, or gives it up for the node's.
func (m *Manager) join(s *Seq, i int, node int32) {
	for j := range s.tables {
		g, t := &m.groups[j], &s.tables[j]
		if i < t.first || g.state {
			continue
		}
		own, page := t.pages[i], g.page[node]
		if page == none {
			g.attach(own, node)
			continue
		}
		g.hold(page)
		t.pages[i] = page
		g.release(own)
	}
}
