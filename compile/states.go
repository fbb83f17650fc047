package compile

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// A state that no sequence computes in may lie in pages of keys and values, so that both share one memory: its bytes, cache after cache, fill the pages' parts of the
// other group's caches one behind the other.

// StatePages implements Runner.
func (p *Program) StatePages(state, into int) int {
	return StatePages(p.limits, p.PageBytes(state), p.PageBytes(into))
}

// StatePages is how many pages of so many bytes a state takes; 0: it cannot be kept there.
func StatePages(lim backend.Limits, bytes, page int64) int {
	if n := lim.StatePages; n != 0 {
		return max(n, 0)
	}
	if page == 0 || bytes == 0 {
		return 0
	}
	return int((bytes + page - 1) / page)
}

// StoreState implements Runner.
func (p *Program) StoreState(state int, from int32, into int, pages []int32) error {
	return p.moveState(state, from, into, pages, func(part, page backend.Buffer) error { return p.dev.Copy(page, part) })
}

// FetchState implements Runner.
func (p *Program) FetchState(state int, to int32, into int, pages []int32) error {
	return p.moveState(state, to, into, pages, func(part, page backend.Buffer) error { return p.dev.Copy(part, page) })
}

// moveState goes through a state's parts and those of the pages that have them.
func (p *Program) moveState(state int, at int32, into int, pages []int32, copied func(part, page backend.Buffer) error) error {
	if !p.holds(state, &at) {
		return nil
	}
	pages = slices.Clone(pages)
	for i := range pages {
		p.holds(into, &pages[i])
	}
	space := pageSpace{program: p, caches: p.groups[into].Caches, pages: pages}
	for _, c := range p.groups[state].Caches {
		size := p.limits.PageBytes(c)
		for from := int64(0); from < size; {
			page, n, err := space.next(size - from)
			if err != nil {
				return err
			}
			if err := copied(p.pages[c].Slice(int64(at)*size+from, n), page); err != nil {
				return fmt.Errorf("compile: copying state %d of cache %s: %w", at, c.Name, err)
			}
			from += n
		}
	}
	return nil
}

// pageSpace is the bytes of pages in all caches of a group, one behind the other.
type pageSpace struct {
	program *Program
	caches  []*graph.Cache
	pages   []int32
	cache   int   // that the next bytes are in
	page    int   // likewise
	from    int64 // of its bytes there
}

// next is the next bytes that lie together, as many as are wanted at most.
func (s *pageSpace) next(wanted int64) (b backend.Buffer, n int64, err error) {
	if s.cache == len(s.caches) || len(s.pages) == 0 {
		return b, 0, fmt.Errorf("compile: a state of more bytes than %d pages have", len(s.pages))
	}
	c := s.caches[s.cache]
	size := s.program.limits.PageBytes(c)
	n = min(wanted, size-s.from)
	b = s.program.pages[c].Slice(int64(s.pages[s.page])*size+s.from, n)
	if s.from += n; s.from == size {
		s.from = 0
		if s.page++; s.page == len(s.pages) {
			s.page = 0
			s.cache++
		}
	}
	return b, n, nil
}
