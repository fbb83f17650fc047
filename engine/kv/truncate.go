package kv

// Truncate takes back the sequence's tokens from number n on, as if they had never been appended: pages wholly beyond n are given
// back. It changes nothing and returns false if what token n looks at is gone: from a group with a window, which cannot be
// within Options.Slack tokens of the length at the last Append, Trim or Move if the tokens were appended; from a
// recurrent one, unless n is where it has a snapshot.
func (m *Manager) Truncate(s *Seq, n int) bool {
	if n < 0 || n > s.length {
		return false
	}
	if n == s.length {
		return true
	}
	for i := range s.tables {
		g := &m.groups[i]
		if !g.state && s.tables[i].first > g.firstNeeded(n, m.pageSize) || g.state && n > 0 && m.snapshotAt(s, i, n) == none {
			return false
		}
	}
	for i := range s.tables {
		if g := &m.groups[i]; g.state && n > 0 {
			m.restore(s, i, m.snapshotAt(s, i, n))
		}
	}
	m.leavePages(s, m.PagesFor(n))
	s.length, s.written = n, min(s.written, n)
	return true
}

// snapshotAt is the page with the state of a group after the sequence's first n tokens, or none.
func (m *Manager) snapshotAt(s *Seq, group, n int) int32 {
	if n%m.pageSize != 0 || len(s.nodes) < n/m.pageSize {
		return none
	}
	return m.groups[group].page[s.nodes[n/m.pageSize-1]]
}

// restore makes a snapshot the sequence's state in a group. The next Append copies it.
func (m *Manager) restore(s *Seq, group int, page int32) {
	g, t := &m.groups[group], &s.tables[group]
	g.hold(page)
	g.used[page] = true
	for _, old := range t.pages {
		g.release(old)
	}
	t.pages = append(t.pages[:0], page)
}

// Snapshot keeps the sequence's state in every recurrent group for others that begin with the same tokens, and for Truncate, if it
// ends with a page; tokens are all it knows, of which it publishes what Publish left for later. The state must have been computed: call it before
// the next Append, which goes on with a copy. It takes the place of the sequence's last one, unless that is where texts part or another sequence has gone on from it: a
// text that goes on does so from its end, as a rule.
func (m *Manager) Snapshot(s *Seq, tokens []int32) {
	if !m.recurrent || s.length == 0 || s.length%m.pageSize != 0 {
		return
	}
	s.written = s.length
	if m.Publish(s, tokens); len(s.nodes) < s.pages {
		return
	}
	node, kept := s.nodes[s.pages-1], false
	for i := range s.tables {
		g := &m.groups[i]
		if g.state && g.page[node] == none && !g.shared(s.tables[i].pages[0]) {
			g.attach(s.tables[i].pages[0], node)
			kept = true
		}
	}
	if !kept {
		return
	}
	if s.newest > 0 {
		m.supersede(s.nodes[s.newest-1])
	}
	if s.newest = s.pages; s.length == s.parts {
		s.newest = 0
	}
}

// supersede gives a node's states back where no sequence has gone on from them.
func (m *Manager) supersede(node int32) {
	for i := range m.groups {
		g := &m.groups[i]
		if !g.state || g.page[node] == none {
			continue
		}
		if page := g.page[node]; g.holders[page] == 0 && !g.used[page] {
			g.detach(page)
			g.free = append(g.free, page)
		}
	}
}

// Parts is where the index parts from the sequence, if it has the tokens up to there and a state only of fewer: the end of a page, where a
// snapshot would serve all that begin alike; 0 where there is no such place.
func (m *Manager) Parts(s *Seq) int { return s.parts }

// State is the page with the sequence's state in a recurrent group.
func (m *Manager) State(s *Seq, group int) int32 { return s.tables[group].pages[0] }
