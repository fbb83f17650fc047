package kv

import (
	"fmt"
	"math"
)

// none is no page, and no node.
const none = int32(-1)

// MaxGroups is the most cache groups that a manager can have.
const MaxGroups = 4

// Pages is a number of pages of each cache group.
type Pages [MaxGroups]int

// Fits reports whether p is no more than room, in any group.
func (p Pages) Fits(room Pages) bool {
	for g, n := range p {
		if n > room[g] {
			return false
		}
	}
	return true
}

// Group is a cache group: layers that need the same tokens of a sequence kept, and share its page table.
type Group struct {
	Pages  int // of its caches
	Window int // tokens that are kept, counted back from the newest; 0: all of them
	// Recurrent layers keep no tokens but one state of all of them: a sequence has one page, which holds it.
	Recurrent bool
}

// Options are a manager's settings.
type Options struct {
	PageSize int // tokens in a page
	Groups   []Group
	Index    func(nodes, pageSize int) Index // Radix, HashBlocks or None
	// StatePages is how many pages of the group that keeps all tokens a state of the recurrent group takes when it is kept there; 0: it is kept in the recurrent group.
	StatePages int
	// Price is what computing a text's tokens [from, to) takes, in any unit, by which it is decided what is kept; nil: their number. See SetPrice.
	Price func(from, to int) float64
	// Slack is how many tokens a caller may take back with Truncate: groups with a window keep as many tokens more.
	Slack int
}

// Manager is the account of the pages of all cache groups. It is used by one goroutine. After New it allocates nothing, but for the
// growth of tables; every operation takes time in the pages it touches.
type Manager struct {
	pageSize int
	slack    int
	windowed bool // a group has a window

	recurrent bool // a group keeps states
	states    states
	groups    []group
	copies    []Copy // of the Append under way
	nodes     nodes
	index     Index
	found     []int32 // nodes of the beginning that is being looked for
	stats     Stats
	watch     func(Event) // nil: nobody does

	seed    Key                                  // see Offload
	evicted func(key Key, group int, page int32) // nil: nobody is told
}

// Stats counts what has happened since New.
type Stats struct {
	Queried int64 // prompt tokens that were looked for in the index
	Found   int64 // of those, tokens that did not have to be computed

	Stranded int64 // tokens that had to be computed though the index knew them: a state, or pages of a window, were gone

	Evicted int64 // pages taken from the index to be used again

	Stored, Fetched int64 // states moved to pages of the group that keeps all tokens, and copied back to go on from
}

// Copy asks for the contents of one page to be copied to another, in every cache of a group. With Pages, a state is stored in those of group Store (To is -1), or
// fetched from there (From is -1).
type Copy struct {
	Group    int
	From, To int32
	Store    int
	Pages    []int32
}

// New returns the account of empty caches.
func New(o Options) (*Manager, error) {
	switch {
	case len(o.Groups) < 1 || len(o.Groups) > MaxGroups:
		return nil, fmt.Errorf("kv: %d cache groups; 1 to %d are possible", len(o.Groups), MaxGroups)
	case o.StatePages < 0:
		return nil, fmt.Errorf("kv: %d pages for a state; 0 (it is kept in its own group) or more are possible", o.StatePages)
	case o.Slack < 0:
		return nil, fmt.Errorf("kv: a slack of %d tokens; 0 or more is possible", o.Slack)
	}
	m := &Manager{pageSize: o.PageSize, slack: o.Slack}
	full, most, recurrent := math.MaxInt, 0, false
	for _, g := range o.Groups {
		if g.Recurrent && recurrent {
			return nil, fmt.Errorf("kv: two recurrent groups; states of all layers are one")
		}
		recurrent = g.Recurrent || recurrent
		if g.Pages < 1 || o.PageSize < 1 || g.Pages > math.MaxInt32/o.PageSize || g.Window < 0 || g.Recurrent && g.Window > 0 {
			return nil, fmt.Errorf("kv: a cache of %d pages of %d tokens with a window of %d; pages and tokens must be at least 1, slots must fit 32 bits, and the window must not be negative, and 0 where layers are recurrent", g.Pages, o.PageSize, g.Window)
		}
		switch {
		case g.Recurrent:
			most = max(most, nodesOfState*g.Pages)
		case g.Window > 0:
			most = max(most, nodesOfPage*g.Pages)
		default:
			full = min(full, g.Pages)
		}
	}
	// A node has a page in every group that keeps all tokens. Without such a group nodes can outlive their pages, as the way to those
	// after them.
	n := full
	if full == math.MaxInt {
		n = min(most, math.MaxInt32)
	}
	m.nodes = newNodes(n)
	m.states = newStates(o, n)
	m.index = o.Index(n, o.PageSize)
	for _, g := range o.Groups {
		m.groups = append(m.groups, newGroup(g, n))
		m.windowed, m.recurrent = m.windowed || g.Window > 0, m.recurrent || g.Recurrent
	}
	return m, nil
}

// How many nodes there are for each page of a group with a window, and for each state, where no group keeps all tokens.
const (
	nodesOfPage  = 4
	nodesOfState = 256
)

// Groups is the number of cache groups.
func (m *Manager) Groups() int { return len(m.groups) }

// Windowed reports whether there are groups that Trim gives pages back of.
func (m *Manager) Windowed() bool { return m.windowed }

// Total is the number of pages, used or not.
func (m *Manager) Total() (p Pages) {
	for g := range m.groups {
		p[g] = len(m.groups[g].holders)
	}
	return p
}

// PageSize is the number of tokens in a page.
func (m *Manager) PageSize() int { return m.pageSize }

// Available is the number of pages that can be given out now: the free ones and the idle ones.
func (m *Manager) Available() (p Pages) {
	for g := range m.groups {
		p[g] = len(m.groups[g].free) + m.groups[g].idle
	}
	return p
}

// Idle is the number of pages that are kept only because the index knows their tokens.
func (m *Manager) Idle() (p Pages) {
	for g := range m.groups {
		p[g] = m.groups[g].idle
	}
	return p
}

// Stats returns the counts so far.
func (m *Manager) Stats() Stats { return m.stats }

// PagesFor is the number of pages that so many tokens take.
func (m *Manager) PagesFor(tokens int) int { return (tokens + m.pageSize - 1) / m.pageSize }

// Flush empties the index of all pages that no sequence holds: they are free then, and what they held is forgotten.
func (m *Manager) Flush() { m.unseen(m.flush) }

func (m *Manager) flush() {
	defer m.flushed(m.watch)()
	for m.nodes.idle > 0 {
		m.evictNode()
	}
	if m.recurrent {
		m.dropStates()
	}
	for i := range m.groups {
		g := &m.groups[i]
		for g.lru && !g.state && g.idle > 0 {
			g.free = append(g.free, g.detachOldest())
		}
	}
}
