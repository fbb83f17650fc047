package kv

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// memory is a naive cache memory with its manager.
type memory struct {
	m    *Manager
	rows [][]string // of each group
}

// copyPages carries out copies as the backend would.
func copyPages(from, to *memory, copies []Copy) {
	for _, c := range copies {
		if c.Pages != nil {
			copyState(to, c)
			continue
		}
		copy(to.rows[c.Group][c.To*testPageSize:][:testPageSize], from.rows[c.Group][c.From*testPageSize:][:testPageSize])
	}
}

// copyState stores a state in all rows of the pages that it takes, or fetches it from there.
func copyState(x *memory, c Copy) {
	if c.To == none {
		for _, page := range c.Pages {
			for i := range testPageSize {
				x.rows[c.Store][int(page)*testPageSize+i] = "state " + x.rows[c.Group][c.From*testPageSize]
			}
		}
		return
	}
	all := map[string]bool{}
	for _, page := range c.Pages {
		for i := range testPageSize {
			all[x.rows[c.Store][int(page)*testPageSize+i]] = true
		}
	}
	for state := range all {
		x.rows[c.Group][c.To*testPageSize] = strings.TrimPrefix(state, "state ")
		if len(all) > 1 {
			x.rows[c.Group][c.To*testPageSize] = fmt.Sprint("parts of ", all)
		}
	}
}

// checkRows looks into the rows that the request's tokens from number from on look at.
func (x *memory) checkRows(t *rapid.T, r *request, from int) {
	for g := range x.rows {
		if r.Len() == 0 {
			return
		}
		if x.m.groups[g].state {
			for _, got := range x.state(r, g) {
				if want := r.row(r.Len() - 1); got != want {
					t.Fatalf("group %d: the state holds %q, want %q", g, got, want)
				}
			}
			continue
		}
		table := x.m.Table(nil, &r.Seq, g)
		first := 0
		if window := x.m.groups[g].window; window > 0 {
			first = max(0, from-window+1)
		}
		for at := first; at < r.Len(); at++ {
			slot := table[at/testPageSize]*testPageSize + int32(at%testPageSize)
			if got, want := x.rows[g][slot], r.row(at); got != want {
				t.Fatalf("group %d, token %d of %d: its row holds %q, want %q", g, at, r.Len(), got, want)
			}
		}
	}
}

// state is what the request's state in a recurrent group holds: in its own page or, where the next Append fetches it, in all rows that it is stored in.
func (x *memory) state(r *request, group int) (rows []string) {
	if r.stored == 0 {
		return []string{x.rows[group][x.m.State(&r.Seq, group)*testPageSize]}
	}
	for _, page := range x.m.states.slots[r.stored-1].pages {
		for _, row := range x.rows[x.m.states.store][page*testPageSize:][:testPageSize] {
			rows = append(rows, strings.TrimPrefix(row, "state "))
		}
	}
	return rows
}
