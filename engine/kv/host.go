package kv

import "fmt"

// Host is the account of pages of host memory that keep what has left the device, or came from further away, by the keys of its nodes. A page of a group is free, or has one
// key, and is then either pinned, because something is copied to it or from it, or given out again when it is the longest unused.
type Host struct {
	groups  []hostGroup
	entries map[Key]*hostEntry
}

type hostGroup struct {
	owner  []*hostEntry // per page; nil: it is free
	free   []int32
	recent recency // pages that are not pinned
}

// hostEntry is what host memory has of a node.
type hostEntry struct {
	key   Key
	pages HostPages
	pins  int
}

// HostPages is a page of each group, or none (-1).
type HostPages [MaxGroups]int32

// Has reports whether there is a page of a group.
func (p HostPages) Has(group int) bool { return p[group] != none }

// NoHostPages are those of a key that has none.
var NoHostPages = HostPages{none, none, none, none}

// NewHost is the account of so many pages of each group.
func NewHost(pages []int) *Host {
	h := &Host{entries: map[Key]*hostEntry{}}
	for _, n := range pages {
		g := hostGroup{owner: make([]*hostEntry, n), free: make([]int32, n), recent: newRecency(n)}
		for i := range g.free {
			g.free[i] = int32(n - 1 - i)
		}
		h.groups = append(h.groups, g)
	}
	return h
}

// Find is the pages that a key has, if it has any.
func (h *Host) Find(key Key) (HostPages, bool) {
	e := h.entries[key]
	if e == nil {
		return NoHostPages, false
	}
	return e.pages, true
}

// Put is a page of a group for a key: its own (fresh is false), or one whose contents are to come; none if all are pinned.
func (h *Host) Put(key Key, group int) (page int32, fresh bool) {
	e := h.entries[key]
	if e != nil && e.pages[group] != none {
		return e.pages[group], false
	}
	g := &h.groups[group]
	if len(g.free) == 0 {
		oldest := g.recent.oldest()
		if oldest == none {
			return none, false
		}
		h.drop(group, oldest)
		e = h.entries[key]
	}
	page = g.free[len(g.free)-1]
	g.free = g.free[:len(g.free)-1]
	if e == nil {
		e = &hostEntry{key: key, pages: NoHostPages}
		h.entries[key] = e
	}
	e.pages[group] = page
	g.owner[page] = e
	if e.pins == 0 {
		g.recent.put(page)
	}
	return page, true
}

// drop frees a page.
func (h *Host) drop(group int, page int32) {
	g := &h.groups[group]
	e := g.owner[page]
	g.recent.remove(page)
	g.owner[page], g.free = nil, append(g.free, page)
	e.pages[group] = none
	for i := range h.groups {
		if e.pages[i] != none {
			return
		}
	}
	if e.pins == 0 {
		delete(h.entries, e.key)
	}
}

// Drop frees all pages of a key, which must not be pinned by others than the caller, who has pinned it once.
func (h *Host) Drop(key Key) {
	e := h.entries[key]
	e.pins--
	for i := range h.groups {
		if e.pages[i] != none {
			h.drop(i, e.pages[i])
		}
	}
	delete(h.entries, key)
}

// Cancel frees a page that Put gave, whose contents will not come, and ends the caller's Pin of its key.
func (h *Host) Cancel(key Key, group int) {
	e := h.entries[key]
	h.drop(group, e.pages[group])
	if h.Unpin(key); e.pins == 0 && e.pages == NoHostPages {
		delete(h.entries, key)
	}
}

// Pin keeps a key's pages, those that it has and those that it gets, until Unpin. Pins reports how many such there are.
func (h *Host) Pin(key Key) {
	e := h.entries[key]
	if e.pins++; e.pins > 1 {
		return
	}
	for i, page := range e.pages[:len(h.groups)] {
		if page != none {
			h.groups[i].recent.remove(page)
		}
	}
}

// Pins is how many times a key is pinned.
func (h *Host) Pins(key Key) int {
	if e := h.entries[key]; e != nil {
		return e.pins
	}
	return 0
}

// Unpin ends a Pin. The key's pages are the last used then.
func (h *Host) Unpin(key Key) {
	h.entries[key].pins--
	h.Touch(key)
}

// Touch makes a key's pages the last used. Keys of a text are touched from its end, so that its beginning is kept longest.
func (h *Host) Touch(key Key) {
	e := h.entries[key]
	if e == nil || e.pins > 0 {
		return
	}
	for i, page := range e.pages[:len(h.groups)] {
		if page != none {
			h.groups[i].recent.put(page)
		}
	}
}

// Used is how many pages of a group have a key.
func (h *Host) Used(group int) int { return len(h.groups[group].owner) - len(h.groups[group].free) }

// Total is how many pages of a group there are.
func (h *Host) Total(group int) int { return len(h.groups[group].owner) }

// Check returns what is wrong with the account; nil if nothing is. It is for tests.
func (h *Host) Check() error {
	for i := range h.groups {
		g := &h.groups[i]
		free := map[int32]bool{}
		for _, page := range g.free {
			if free[page] || g.owner[page] != nil || g.recent.has(page) {
				return fmt.Errorf("kv: free host page %d of group %d is listed twice, owned or listed as used", page, i)
			}
			free[page] = true
		}
		for page, e := range g.owner {
			switch {
			case e == nil && !free[int32(page)]:
				return fmt.Errorf("kv: host page %d of group %d is nowhere", page, i)
			case e != nil && (e.pages[i] != int32(page) || h.entries[e.key] != e):
				return fmt.Errorf("kv: host page %d of group %d has an owner that does not know it", page, i)
			case e != nil && g.recent.has(int32(page)) != (e.pins == 0):
				return fmt.Errorf("kv: host page %d of group %d: %d pins, listed to be given out %t", page, i, e.pins, g.recent.has(int32(page)))
			}
		}
	}
	return nil
}
