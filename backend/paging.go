package backend

import (
	"math"
	"sort"

	"github.com/ridge-llm/ridge/graph"
)

// PrefixCache is how many times the pages that steps can need a group with a window has where memory allows it: what is beyond them
// keeps the ends of texts that may be continued.
const PrefixCache = 2

// Paging divides memory between the cache groups of a model. One of them is the main one: it keeps all of every sequence, or most. A
// group with a window has as many pages as the main one at most, and no more than a few times what steps can need: so it
// never runs out before the main group does.
type Paging struct {
	groups []graph.CacheGroup // with the windows that matter: shorter than the context
	main   int
	shape  graph.CacheShape
}

// NewPaging is the Paging of a graph for steps and contexts of these limits.
func NewPaging(g *graph.Graph, lim *Limits) *Paging {
	p := &Paging{groups: g.CacheGroups(), shape: shapeOf(lim)}
	p.normalize()
	return p
}

func shapeOf(l *Limits) graph.CacheShape {
	return graph.CacheShape{Seqs: l.Seqs, Tokens: l.SeqPages * l.PageSize, StepTokens: l.Tokens, PageSize: l.PageSize}
}

// normalize drops the windows that do not matter, and finds the main group.
func (p *Paging) normalize() {
	for i := range p.groups {
		g := &p.groups[i]
		if g.Window >= p.shape.Tokens {
			g.Window = 0
		}
		if longest := p.groups[p.main].Window; longest != 0 && (g.Window == 0 || g.Window > longest) {
			p.main = i
		}
	}
}

// Regroup gives cache groups their pages anew, after other limits were changed.
func (l *Limits) Regroup() {
	p := &Paging{shape: shapeOf(l)}
	for _, g := range l.Groups {
		p.groups = append(p.groups, graph.CacheGroup{Window: g.Window})
	}
	p.normalize()
	p.Share(l, PrefixCache)
}

// seqPages is the pages of one sequence.
func (p *Paging) seqPages() int { return (p.shape.Tokens + p.shape.PageSize - 1) / p.shape.PageSize }

// stepPages is how many pages of a group steps can need.
func (p *Paging) stepPages(i int) int {
	return p.groups[i].StepPages(p.shape)
}

// Most is how many pages of the main group all requests can fill, and as many again for a prefix cache if it has a window.
func (p *Paging) Most() int {
	most := p.seqPages() * p.shape.Seqs
	if len(p.groups) > 0 && p.groups[p.main].Window > 0 {
		most = min(most, max(PrefixCache*p.stepPages(p.main), p.seqPages()))
	}
	return most
}

// of is how many pages group i gets where the main one has so many, and the others so many times what steps can need.
func (p *Paging) of(i, pages, times int) int {
	if i == p.main || p.groups[i].Window == 0 {
		return pages
	}
	return min(pages, times*p.stepPages(i))
}

// Bytes is what all groups take where the main one has so many pages.
func (p *Paging) Bytes(pages, times int) (n int64) {
	for i := range p.groups {
		n += p.groups[i].Bytes(p.of(i, pages, times), p.shape.PageSize)
	}
	return n
}

// Fit is how many pages of the main group fit into a budget with those of the others.
func (p *Paging) Fit(budget int64, times int) int {
	return sort.Search(math.MaxInt32/p.shape.PageSize, func(pages int) bool { return p.Bytes(pages+1, times) > budget })
}

// Share sets the groups' pages in limits whose Pages and SwapPages are those of the main one. Without windows that matter they are all alike, and share one table.
func (p *Paging) Share(lim *Limits, times int) {
	lim.Groups = nil
	for i := range p.groups {
		if p.groups[i].Window == 0 {
			continue
		}
		lim.Groups = lim.Groups[:0]
		for j := range p.groups {
			lim.Groups = append(lim.Groups, GroupLimits{
				Window: p.groups[j].Window, Pages: p.of(j, lim.Pages, times), SwapPages: p.of(j, lim.SwapPages, 1),
			})
		}
		return
	}
}
