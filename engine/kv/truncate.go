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
		if !g.state && s.tables[i].first > g.firstNeeded(n, m.pageSize) || g.state && n > 0 && m.snapshotAt(s, n) == none {
			return false
		}
	}
	for i := range s.tables {
		if m.groups[i].state && n > 0 {
			m.restore(s, m.snapshotAt(s, n))
		}
	}
	m.leavePages(s, m.PagesFor(n))
	s.length, s.written = n, min(s.written, n)
	return true
}

// snapshotAt is the node with the state after the sequence's first n tokens, or none.
func (m *Manager) snapshotAt(s *Seq, n int) int32 {
	if n%m.pageSize != 0 || len(s.nodes) < n/m.pageSize || !m.hasState(s.nodes[n/m.pageSize-1]) {
		return none
	}
	return s.nodes[n/m.pageSize-1]
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
	node, page := s.nodes[s.pages-1], s.tables[m.states.group].pages
	if m.hasState(node) || len(page) == 0 || m.groups[m.states.group].shared(page[0]) {
		return
	}
	m.keep(page[0], node)
	if s.newest > 0 {
		m.supersede(s.nodes[s.newest-1])
	}
	if s.newest = s.pages; s.length == s.parts {
		s.newest = 0
	}
}

// Parts is where the index parts from the sequence, if it has the tokens up to there and a state only of fewer: the end of a page, where a
// snapshot would serve all that begin alike; 0 where there is no such place.
func (m *Manager) Parts(s *Seq) int { return s.parts }

// State is the page with the sequence's state in a recurrent group, as the last Append left it; after a Truncate there may be none until the next Append.
func (m *Manager) State(s *Seq, group int) int32 { return s.tables[group].pages[0] }
