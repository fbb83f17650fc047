package backend

import (
	"math"
	"slices"
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
	part   int // tokens of a page on a device
	states int // of each recurrent group, where pages take no memory; 0: as many as pages leave
}

// NewPaging is the Paging of a graph for steps and contexts of these limits.
func NewPaging(g *graph.Graph, lim *Limits) *Paging {
	p := &Paging{groups: g.CacheGroups(), shape: shapeOf(lim), part: lim.PageSize}
	p.normalize()
	return p
}

// Spread has pages take what they take in the caches of a layout's devices, whose graphs these are, together.
func (p *Paging) Spread(parts []*graph.Graph) {
	for i := range p.groups {
		p.groups[i].Caches = nil
	}
	for _, part := range parts {
		if size, err := part.Sequence.PageSize(p.shape.PageSize); err == nil { // compiling says what is wrong
			p.part = size
		}
		for _, c := range part.Caches {
			to := &p.groups[min(c.Group, len(p.groups)-1)]
			to.Caches = append(to.Caches, c)
		}
	}
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
	}
	p.main = graph.MainGroup(p.groups)
}

// Regroup gives cache groups their pages anew, after other limits were changed. States stay as they are.
func (l *Limits) Regroup() {
	old := l.Groups
	p := &Paging{shape: shapeOf(l)}
	for _, g := range old {
		p.groups = append(p.groups, graph.CacheGroup{Window: g.Window, Recurrent: g.Recurrent})
	}
	p.normalize()
	p.Share(l, PrefixCache)
	for i := range l.Groups {
		if l.Groups[i].Recurrent {
			l.Groups[i].Pages, l.Groups[i].SwapPages = old[i].Pages, old[i].SwapPages
		}
	}
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
	if p.groups[i].Recurrent {
		return p.statesOf(i, pages, times)
	}
	if i == p.main || p.groups[i].Window == 0 {
		return pages
	}
	return min(pages, times*p.stepPages(i))
}

// minStates is one for a sequence, and one for it to go on in while the other is kept.
const minStates = 2

// statesPart is the part of the main group's memory that states may take beyond what sequences need where kept ones cannot be stored in its pages, since it has a window.
const statesPart = 3

// statesOf is how many states a recurrent group gets: one for each sequence, and as many for those that were just left, but no more than fit
// in the memory that the main group has. Sequences beyond that wait. Kept states are stored in pages of the main group (engine/kv).
func (p *Paging) statesOf(i, pages, times int) int {
	if p.states > 0 {
		return p.states
	}
	most := min(pages+1, times*p.stepPages(i)) // every sequence has a page of the main group
	size := p.groups[i].PageBytes(p.part)
	if main := p.groups[p.main].PageBytes(p.part); main > 0 && size > 0 {
		fit := int(int64(pages) * main / size)
		if times > 1 && p.groups[p.main].Window > 0 {
			most = max(most, min(pages+1, fit/statesPart))
		}
		most = min(most, fit)
	}
	return max(most, minStates)
}

// StatePages is how many pages of the main group a state takes; -1: it cannot be kept there.
func (p *Paging) StatePages() int {
	for i := range p.groups {
		page := p.groups[p.main].PageBytes(p.part)
		if p.groups[i].Recurrent && page > 0 && p.groups[p.main].Window == 0 {
			return int((p.groups[i].PageBytes(p.part) + page - 1) / page)
		}
	}
	return -1
}

// Bytes is what all groups take where the main one has so many pages.
func (p *Paging) Bytes(pages, times int) (n int64) {
	for i := range p.groups {
		n += p.groups[i].Bytes(p.of(i, pages, times), p.part)
	}
	return n
}

// Fit is how many pages of the main group fit into a budget with those of the others.
func (p *Paging) Fit(budget int64, times int) int {
	if len(p.groups) > 0 && len(p.groups[p.main].Caches) == 0 { // pages count tokens and take no memory
		p.states = 1
		p.states = int(min(budget/max(p.Bytes(0, times), 1), int64(times*p.stepPages(0))))
		if p.states < minStates {
			return 0
		}
		return p.Most()
	}
	return sort.Search(math.MaxInt32/p.shape.PageSize, func(pages int) bool { return p.Bytes(pages+1, times) > budget })
}

// Share sets the groups' pages in limits whose Pages and SwapPages are those of the main one. Without windows that matter they are all alike, and share one table.
func (p *Paging) Share(lim *Limits, times int) {
	lim.Groups = nil
	for i := range p.groups {
		if p.groups[i].Window == 0 && !p.groups[i].Recurrent {
			continue
		}
		lim.Groups = lim.Groups[:0]
		for j := range p.groups {
			lim.Groups = append(lim.Groups, GroupLimits{
				Window: p.groups[j].Window, Pages: p.of(j, lim.Pages, times), SwapPages: p.of(j, lim.SwapPages, 1), Recurrent: p.groups[j].Recurrent,
			})
		}
		return
	}
}

// keptTimes is how many times what steps can need a group with a window gets of host memory for what has left the cache: as many pages as the others, and for states half
// of the memory.
const keptTimes = 1 << 16

// ShareHost gives the groups their pages of so many bytes of host memory for what has left the cache, in limits that Share has set; false if there is none.
func (p *Paging) ShareHost(lim *Limits, budget int64) bool {
	p.states = 0
	lim.HostPages = p.Fit(budget, keptTimes)
	for i := range lim.Groups {
		lim.Groups[i].HostPages = p.of(i, lim.HostPages, keptTimes)
	}
	return lim.HostPages > 0
}

// HostBytes is what so many pages of host memory take for what has left the cache, with those of all groups.
func (p *Paging) HostBytes(pages int) int64 {
	p.states = 0
	return p.Bytes(pages, keptTimes)
}

// KeepAll has every cache group of a graph with recurrent layers keep all of every sequence, with as many pages or states each: for callers
// that give out pages by themselves. Graphs without such layers need no groups.
func (l *Limits) KeepAll(g *graph.Graph) {
	groups := g.CacheGroups()
	if !slices.ContainsFunc(groups, func(c graph.CacheGroup) bool { return c.Recurrent }) {
		return
	}
	l.Groups = nil
	for _, c := range groups {
		l.Groups = append(l.Groups, GroupLimits{Pages: l.Pages, SwapPages: l.SwapPages, Recurrent: c.Recurrent})
	}
}
