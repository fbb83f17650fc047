package kv

// Seq is one sequence's tables of pages. The zero Seq is empty and ready; its memory is reused after Free.
type Seq struct {
	tables  []table // of each group
	pages   int     // in a table of a group that is not recurrent
	nodes   []int32 // of the index, that its first pages are attached to
	length  int     // tokens that have a slot
	written int     // tokens that had one before the last Append: the step being scheduled does not write these
	salt    Salt
	newest  int // pages before its newest snapshot, which the next one takes the place of; 0: none does
	parts   int // see Parts

	stored int32 // 1 + the slot of the stored state that the next Append fetches; 0: there is none

	stranded int // see Stranded
}

// table is a sequence's pages in one group, in order of its tokens. Those before first have been given back. In a recurrent group it
// is the page with the sequence's state, if it has one.
type table struct {
	pages []int32
	first int
}

// Len is the number of tokens that have a slot: computed, or to be computed by the step that is being planned.
func (s *Seq) Len() int { return s.length }

// Pages is the length of the sequence's tables.
func (s *Seq) Pages() int { return s.pages }

// open gives an empty sequence its tables.
func (m *Manager) open(s *Seq) {
	for len(s.tables) < len(m.groups) {
		s.tables = append(s.tables, table{})
	}
}

// Table appends the sequence's pages in a group to dst, in order of its tokens. In place of pages that were given back stands the
// first that is held: it is a page of the sequence's own, and what is in it has no part in any result; see backend.Table.
func (m *Manager) Table(dst []int32, s *Seq, group int) []int32 {
	t := &s.tables[group]
	at := len(dst)
	dst = append(dst, t.pages...)
	for i := range t.first {
		dst[at+i] = t.pages[t.first]
	}
	return dst
}

// Slots appends the cache rows of the sequence's last n tokens in a group to dst.
func (m *Manager) Slots(dst []int32, s *Seq, group, n int) []int32 {
	pages := s.tables[group].pages
	for at := s.length - n; at < s.length; {
		i := at / m.pageSize
		first := pages[i]*int32(m.pageSize) - int32(i*m.pageSize)
		for end := min((i+1)*m.pageSize, s.length); at < end; at++ {
			dst = append(dst, first+int32(at))
		}
	}
	return dst
}

// Trim gives back the pages that have fallen out of their group's window. The step under way may still read them: what is given
// the pages next must come after it. Append does it too; to have the pages available when a step is planned, do it before.
func (m *Manager) Trim(s *Seq) {
	if !m.windowed {
		return
	}
	for i := range s.tables {
		g, t := &m.groups[i], &s.tables[i]
		if g.window == 0 {
			continue
		}
		for first := g.firstNeeded(s.length-m.slack, m.pageSize); t.first < first; t.first++ {
			g.release(t.pages[t.first])
		}
	}
}

// Need is the number of pages that Append would take for n more tokens of a trimmed sequence. It is at most one too many in a
// group if another sequence that shares the last page lets go of it first.
func (m *Manager) Need(s *Seq, n int) (p Pages) {
	more := m.PagesFor(s.length+n) - s.Pages()
	for i := range m.groups {
		switch {
		case !m.groups[i].state:
			p[i] = more
		case len(s.tables) == 0 || len(s.tables[i].pages) == 0:
			p[i] = 1
		}
		if n > 0 && m.tailShared(s, i) {
			p[i]++
		}
	}
	return p
}

// tailShared reports whether the next token goes to a page of a group that others see: it has to be copied first.
func (m *Manager) tailShared(s *Seq, group int) bool {
	g := &m.groups[group]
	if s.length == 0 || s.length%m.pageSize == 0 && !g.state {
		return false
	}
	pages := s.tables[group].pages
	return len(pages) > 0 && g.shared(pages[len(pages)-1])
}

// Append gives the next n tokens their slots in every group. If the first of them goes to a page that another sequence or the
// index also sees, the sequence gets a page of its own instead and the copy to make is appended to copies. If there are too
// few pages it changes nothing but what Trim does, and returns false.
func (m *Manager) Append(s *Seq, n int, copies []Copy) ([]Copy, bool) {
	m.open(s)
	m.Trim(s)
	if m.fitsTail(s, n) {
		s.written = s.length
		s.length += n
		return copies, true
	}
	if !m.Need(s, n).Fits(m.Available()) {
		return copies, false
	}
	m.copies = copies
	if n > 0 {
		m.fetch(s)
		m.ownTail(s)
	}
	s.written = s.length
	s.length += n
	s.pages = m.PagesFor(s.length)
	for i := range s.tables {
		t := &s.tables[i]
		want := s.pages
		if m.groups[i].state {
			want = 1
		}
		for len(t.pages) < want && (s.stored == 0 || !m.groups[i].state) {
			t.pages = append(t.pages, m.take(i))
		}
	}
	copies, m.copies = m.copies, nil
	return copies, true
}

// fitsTail reports whether n more tokens go to the page that the sequence ends within, which is its own, as is its state.
func (m *Manager) fitsTail(s *Seq, n int) bool {
	if s.length == 0 || s.length+n > s.pages*m.pageSize || s.stored > 0 {
		return false
	}
	for i := range s.tables {
		if m.tailShared(s, i) {
			return false
		}
	}
	return true
}

// ownTail makes the page that the sequence ends within its own, and its state, in every group.
func (m *Manager) ownTail(s *Seq) {
	for i := range s.tables {
		if !m.tailShared(s, i) {
			continue
		}
		t := &s.tables[i]
		last := len(t.pages) - 1
		old, own := t.pages[last], m.take(i)
		m.copies = append(m.copies, Copy{Group: i, From: old, To: own})
		t.pages[last] = own
		m.groups[i].release(old)
	}
	if s.length%m.pageSize != 0 {
		m.leaveNodes(s, s.pages-1)
	}
}

// leaveNodes lets go of the sequence's nodes from number n on, the last first.
func (m *Manager) leaveNodes(s *Seq, n int) {
	for i := len(s.nodes) - 1; i >= n; i-- {
		m.releaseNode(s.nodes[i])
	}
	s.nodes = s.nodes[:min(n, len(s.nodes))]
	if s.newest > len(s.nodes) {
		s.newest = 0
	}
}

// leavePages lets go of the sequence's pages from number n on, the last first, and of their nodes. States stay, but if nothing does.
func (m *Manager) leavePages(s *Seq, n int) {
	for i := range s.tables {
		t := &s.tables[i]
		if m.groups[i].state {
			if n == 0 {
				m.leaveState(s)
			}
			continue
		}
		for at := len(t.pages) - 1; at >= max(n, t.first); at-- {
			m.groups[i].release(t.pages[at])
		}
		t.pages = t.pages[:min(n, len(t.pages))]
		t.first = min(t.first, len(t.pages))
	}
	m.leaveNodes(s, n)
	s.pages = min(s.pages, n)
}

// Free lets go of all pages, the last first: the index takes the order of release for the order of use, and must evict the end
// of a text before its beginning. Those in the index stay there, idle, until they are evicted.
func (m *Manager) Free(s *Seq) {
	m.leavePages(s, 0)
	*s = Seq{tables: s.tables, nodes: s.nodes}
}

// Held is the number of pages that the sequence holds.
func (m *Manager) Held(s *Seq) (p Pages) {
	for i := range s.tables {
		p[i] = len(s.tables[i].pages) - s.tables[i].first
	}
	return p
}

// Returns is the number of pages that Free would make available: those that no other sequence holds.
func (m *Manager) Returns(s *Seq) (p Pages) {
	for i := range s.tables {
		t := &s.tables[i]
		for _, page := range t.pages[t.first:] {
			if m.groups[i].holders[page] == 1 {
				p[i]++
			}
		}
	}
	if s.stored > 0 && m.states.slots[s.stored-1].holders == 1 {
		p[m.states.store] += m.states.each
	}
	return p
}

// Fork makes the empty sequence child a second holder of all of parent's pages, for n > 1 answers to one prompt. The
// two part at the first page that either writes: Append copies it.
func (m *Manager) Fork(child, parent *Seq) {
	m.open(child)
	for i := range parent.tables {
		from, to := &parent.tables[i], &child.tables[i]
		to.pages, to.first = append(to.pages[:0], from.pages...), from.first
		for _, page := range to.pages[to.first:] {
			m.groups[i].holders[page]++
		}
	}
	child.nodes = append(child.nodes[:0], parent.nodes...)
	for _, node := range child.nodes {
		m.nodes.holders[node]++
	}
	if child.stored = parent.stored; child.stored > 0 {
		m.holdStored(child.stored - 1)
	}
	child.length, child.written, child.pages, child.salt = parent.length, parent.written, parent.pages, parent.salt
}

// Move gives the sequence pages of another manager in place of its own, and appends the copies to make, from pages of m to
// pages of to: to swap a sequence out to host memory, or back in. If to has too few pages, or the sequence was to go on from a stored state, it moves nothing and returns false.
func (m *Manager) Move(s *Seq, to *Manager, copies []Copy) ([]Copy, bool) {
	m.Trim(s)
	if !m.Held(s).Fits(to.Available()) || s.stored > 0 {
		return copies, false
	}
	to.states.dropped = true // its copies would come after those of the pages given out here
	defer func() { to.states.dropped = false }()
	for i := range s.tables {
		t := &s.tables[i]
		// The last page first, as in Free.
		for at := len(t.pages) - 1; at >= t.first; at-- {
			old := t.pages[at]
			t.pages[at] = to.take(i)
			copies = append(copies, Copy{Group: i, From: old, To: t.pages[at]})
			m.groups[i].release(old)
		}
	}
	m.leaveNodes(s, 0)
	s.written = s.length
	return copies, true
}
