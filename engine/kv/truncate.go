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
	for _, old := range t.pages {
		g.release(old)
	}
	t.pages = append(t.pages[:0], page)
}

// Snapshot keeps the sequence's state in every recurrent group for others that begin with the same tokens, and for Truncate, if it
// ends with a page that is in the index. The state must have been computed: call it before the next Append, which goes on with a
// copy. It costs that copy, so it is for the ends of prompts and of their chunks rather than for every page of an answer.
func (m *Manager) Snapshot(s *Seq) {
	if s.length == 0 || s.length%m.pageSize != 0 || len(s.nodes) < s.pages {
		return
	}
	node := s.nodes[s.pages-1]
	for i := range s.tables {
		g := &m.groups[i]
		if g.state && g.page[node] == none && !g.shared(s.tables[i].pages[0]) {
			g.attach(s.tables[i].pages[0], node)
		}
	}
}

// State is the page with the sequence's state in a recurrent group.
func (m *Manager) State(s *Seq, group int) int32 { return s.tables[group].pages[0] }
