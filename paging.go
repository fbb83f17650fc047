package ridge

import (
	"math"
	"sort"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// prefixCache is how many times the pages that steps can need a group with a window has where memory allows it: what is beyond them
// keeps the ends of texts that may be continued.
const prefixCache = 2

// paging divides memory between the cache groups of a model. One of them is the main one: it keeps all of every sequence, or most. A
// group with a window has as many pages as the main one at most, and no more than a few times what steps can need: so it
// never runs out before the main group does.
type paging struct {
	groups []graph.CacheGroup // with the windows that matter: shorter than the context
	main   int
	lim    backend.Limits
}

func newPaging(g *graph.Graph, lim *backend.Limits) *paging {
	p := &paging{groups: g.CacheGroups(), lim: *lim}
	for i := range p.groups {
		if p.groups[i].Window >= lim.SeqPages*lim.PageSize {
			p.groups[i].Window = 0
		}
		if longest := p.groups[p.main].Window; longest != 0 && (p.groups[i].Window == 0 || p.groups[i].Window > longest) {
			p.main = i
		}
	}
	return p
}

// stepPages is how many pages of a group steps can need.
func (p *paging) stepPages(i int) int {
	return p.groups[i].StepPages(p.lim.Seqs, p.lim.SeqPages*p.lim.PageSize, p.lim.Tokens, p.lim.PageSize)
}

// most is how many pages of the main group all requests can fill, and as many again for a prefix cache if it has a window.
func (p *paging) most() int {
	most := p.lim.SeqPages * p.lim.Seqs
	if len(p.groups) > 0 && p.groups[p.main].Window > 0 {
		most = min(most, max(prefixCache*p.stepPages(p.main), p.lim.SeqPages))
	}
	return most
}

// of is how many pages group i gets where the main one has so many, and the others so many times what steps can need.
func (p *paging) of(i, pages, times int) int {
	if i == p.main || p.groups[i].Window == 0 {
		return pages
	}
	return min(pages, times*p.stepPages(i))
}

// bytes is what all groups take where the main one has so many pages.
func (p *paging) bytes(pages, times int) (n int64) {
	for i := range p.groups {
		n += p.groups[i].Bytes(p.of(i, pages, times), p.lim.PageSize)
	}
	return n
}

// fitting is how many pages of the main group fit into a budget with those of the others.
func (p *paging) fitting(budget int64, times int) int {
	return sort.Search(math.MaxInt32/p.lim.PageSize, func(pages int) bool { return p.bytes(pages+1, times) > budget })
}

// share gives the groups their pages, by those of the main one. Without windows that matter they are all alike, and share one table.
func (p *paging) share(lim *backend.Limits, times int) {
	lim.Groups = nil
	for i := range p.groups {
		if p.groups[i].Window == 0 {
			continue
		}
		lim.Groups = lim.Groups[:0]
		for j := range p.groups {
			lim.Groups = append(lim.Groups, backend.GroupLimits{
				Window: p.groups[j].Window, Pages: p.of(j, lim.Pages, times), SwapPages: p.of(j, lim.SwapPages, 1),
			})
		}
		return
	}
}
