package kv

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names what the pages of a node hold, the same in every process: SHA-256 over the key of the node before it, the node's salt and its tokens. The key before a text's
// first node is the seed, which stands for all else that the numbers depend on.
type Key [sha256.Size]byte

// Local is the bit of salts that mean something in this process alone, as those of adapters: what has it is not kept elsewhere.
const Local = 1 << 63

// next is the key of a node after the one of key k; of none, if the salt is of this process alone.
func (k Key) next(salt uint64, tokens []int32) Key {
	if salt&Local != 0 {
		return Key{}
	}
	var space [512]byte
	b := binary.LittleEndian.AppendUint64(append(space[:0], k[:]...), salt)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return sha256.Sum256(b)
}

// Keys appends the keys of the pages of a text, whole ones alone, as far as they can be known elsewhere.
func (m *Manager) Keys(dst []Key, salt Salt, tokens []int32) []Key {
	key := m.seed
	for end := m.pageSize; end <= len(tokens); end += m.pageSize {
		if key = key.next(salt.page(end), tokens[end-m.pageSize:end]); key == (Key{}) {
			break
		}
		dst = append(dst, key)
	}
	return dst
}

// Offload has evicted called with every page that leaves the index with its contents whole, before it is given out again: from Append, Publish, Snapshot, Move and Import.
// It is called once, before all else.
func (m *Manager) Offload(seed Key, evicted func(key Key, group int, page int32)) {
	m.seed, m.evicted = seed, evicted
	m.nodes.key = make([]Key, len(m.nodes.indexed))
}

// keyOf gives a node that was entered its key.
func (m *Manager) keyOf(node, before int32, salt uint64, tokens []int32) {
	key := m.seed
	if before != none {
		key = m.nodes.key[before]
	}
	if key != (Key{}) {
		key = key.next(salt, tokens)
	}
	m.nodes.key[node] = key
}

// leaving tells of a page that is about to be detached from its node.
func (m *Manager) leaving(group int, page int32) {
	if m.evicted == nil {
		return
	}
	if key := m.nodes.key[m.groups[group].node[page]]; key != (Key{}) {
		m.evicted(key, group, page)
	}
}

// unseen does something without telling of pages that leave the index: what is in them is not wanted.
func (m *Manager) unseen(do func()) {
	evicted := m.evicted
	m.evicted = nil
	do()
	m.evicted = evicted
}

// Published appends to dst the pages that the index has of a sequence's text, in all groups, from number from to number to, as far as they are there, and returns up to which they are: what may be kept elsewhere while it is here. States are not among them.
func (m *Manager) Published(dst []KeyedPage, s *Seq, from, to int) (pages []KeyedPage, end int) {
	to = min(to, len(s.nodes))
	for i := from; i < to; i++ {
		key := m.nodes.key[s.nodes[i]]
		if key == (Key{}) {
			continue
		}
		for g := range s.tables {
			if page := m.groups[g].page[s.nodes[i]]; page != none && !m.groups[g].state {
				dst = append(dst, KeyedPage{Key: key, Group: g, Page: page})
			}
		}
	}
	return dst, max(from, to)
}

// PublishedStates appends to dst the states that the index keeps along a sequence.
func (m *Manager) PublishedStates(dst []KeyedPage, s *Seq) []KeyedPage {
	if !m.recurrent {
		return dst
	}
	for _, node := range s.nodes {
		if m.hasState(node) && m.states.at[node] == none && m.nodes.key[node] != (Key{}) {
			dst = append(dst, KeyedPage{Key: m.nodes.key[node], Group: m.states.group, Page: m.groups[m.states.group].page[node]})
		}
	}
	return dst
}

// KeyedPage is a page of a group with what names its contents.
type KeyedPage struct {
	Key   Key
	Group int
	Page  int32
}

// Needed reports whether a page of a group, number i of a text, is looked at when a sequence goes on after so many tokens, which end with a page: what Import has to be
// given.
func (m *Manager) Needed(group, i, tokens int) bool {
	g := &m.groups[group]
	if g.state {
		return (i+1)*m.pageSize == tokens
	}
	return i >= g.firstNeeded(tokens, m.pageSize)
}

// Importable is how many pages a text could begin with, and how many idle ones of each group that would take: what the index has, and behind that what has been kept elsewhere,
// which find knows. keys are those of the text. At least one token is left. It is no less than Match says.
func (m *Manager) Importable(salt Salt, tokens []int32, keys []Key, find func(Key) (HostPages, bool)) (n int, idle Pages) {
	tokensFound, idle := m.Match(salt, tokens)
	n = tokensFound / m.pageSize
	last, more := n, idle
	var run Pages
	for g := range m.groups {
		run[g] = n - m.groups[g].firstNeeded(tokensFound, m.pageSize)
	}
	for i := n; i < min(len(keys), (len(tokens)-1)/m.pageSize); i++ {
		node := none
		if i < len(m.found) {
			node = m.found[i]
		}
		kept, _ := find(keys[i])
		usable := true
		for g := range m.groups {
			x := &m.groups[g]
			here := node != none && x.page[node] != none
			switch {
			case x.state:
				usable = usable && (here || kept.Has(g))
				continue
			case !here && !kept.Has(g):
				run[g] = 0
			default:
				run[g]++
			}
			if x.window == 0 && run[g] == 0 {
				return last, idle
			}
			usable = usable && run[g] >= i+1-x.firstNeeded((i+1)*m.pageSize, m.pageSize)
			if !here || x.holders[x.page[node]] == 0 {
				more[g]++
			}
		}
		if usable {
			last, idle = i+1, more
		}
	}
	return last, idle
}

// Import has a sequence that ends with a page of the index go on behind the next n pages of its text, whose contents were kept elsewhere. What has to be copied to which page
// is appended to dst, before the next step reads it. If there are too few pages it changes nothing, and returns false.
func (m *Manager) Import(s *Seq, tokens []int32, n int, dst []KeyedPage) (missing []KeyedPage, ok bool) {
	m.open(s)
	first, length := s.pages, s.length+n*m.pageSize
	if n == 0 || s.length%m.pageSize != 0 || len(s.nodes) < first || length > len(tokens) || s.stored > 0 {
		return dst, false
	}
	have := m.walk(s, tokens, n)
	if !m.canImport(have, first, n, length) {
		return dst, false
	}
	s.newest = 0
	for _, node := range have { // first: what is held is not evicted for the others
		m.holdNode(node)
		for g := range s.tables {
			if page := m.groups[g].page[node]; page != none && !m.groups[g].state {
				m.groups[g].hold(page)
			}
		}
	}
	for i := first; i < first+n; i++ {
		words, salt, before := tokens[i*m.pageSize:(i+1)*m.pageSize], s.salt.page((i+1)*m.pageSize), none
		if i > 0 {
			before = s.nodes[i-1]
		}
		var node int32
		if at := i - first; at < len(have) {
			node = have[at]
		} else if node = m.insert(before, salt, words); node == none {
			panic("kv: the index takes no node of a text whose pages were counted")
		}
		s.nodes = append(s.nodes, node)
		dst = m.importNode(s, i, length, dst)
	}
	s.length, s.written, s.pages = length, length, first+n
	for i := range s.tables {
		g, t := &m.groups[i], &s.tables[i]
		if g.state || g.window == 0 {
			continue
		}
		for need := g.firstNeeded(length, m.pageSize); t.first < need; t.first++ {
			if page := t.pages[t.first]; page != none {
				g.release(page)
			}
			t.pages[t.first] = 0 // given back
		}
	}
	m.stats.Found += int64(n * m.pageSize)
	return dst, true
}

// walk is the nodes that the index has of the next n pages of a sequence's text.
func (m *Manager) walk(s *Seq, tokens []int32, n int) []int32 {
	m.found = m.found[:0]
	last := none
	if s.pages > 0 {
		last = s.nodes[s.pages-1]
	}
	for i := s.pages; i < s.pages+n; i++ {
		if last = m.index.Find(last, s.salt.page((i+1)*m.pageSize), tokens[i*m.pageSize:(i+1)*m.pageSize]); last == none {
			break
		}
		m.found = append(m.found, last)
	}
	return m.found
}

// canImport reports whether there are pages and nodes for an Import, of which the index has some.
func (m *Manager) canImport(have []int32, first, n, length int) bool {
	free := m.Available()
	var want Pages
	idle := 0
	for _, node := range have {
		if m.nodes.holders[node] == 0 {
			idle++
		}
	}
	for i := range m.groups {
		g := &m.groups[i]
		if g.state {
			want[i] = 1
			continue
		}
		for at := first; at < first+n; at++ {
			if at-first < len(have) && g.page[have[at-first]] != none {
				if g.holders[g.page[have[at-first]]] == 0 {
					free[i]--
				}
			} else if m.Needed(i, at, length) {
				want[i]++
			}
		}
	}
	return want.Fits(free) && n-len(have) <= len(m.nodes.free)+m.nodes.idle-idle
}

// importNode gives a sequence's table its page number i, which ends with the last of its nodes, in every group: the node's, or a new one that is missing its contents. The
// page is none where it will not be looked at.
func (m *Manager) importNode(s *Seq, i, length int, dst []KeyedPage) []KeyedPage {
	node := s.nodes[i]
	for j := range s.tables {
		g, t := &m.groups[j], &s.tables[j]
		page := g.page[node]
		switch {
		case g.state:
			if (i+1)*m.pageSize != length {
				continue
			}
			if m.hasState(node) {
				m.restore(s, node)
				continue
			}
			m.leaveState(s)
			page = m.take(j)
			t.pages = append(t.pages, page)
			m.keep(page, node)
			dst = append(dst, KeyedPage{m.nodes.key[node], j, page})
			continue
		case page == none && m.Needed(j, i, length):
			page = m.take(j)
			g.attach(page, node)
			dst = append(dst, KeyedPage{m.nodes.key[node], j, page})
		}
		t.pages = append(t.pages, page)
	}
	return dst
}
