package sched

import "math"

// Devices that have sequences of their own (Options.Ranks): each has the pages of its requests, and a step's rows are of all of them. A request gets its rank when it is admitted.

func (o *Options) ranks() int { return max(o.Ranks, 1) }

// share is how many tokens of prompts a step has on one rank: as many as on any other, since the step lasts as long as the rank with most of them.
func (o *Options) share() int {
	if o.ranks() == 1 || o.Whole {
		return math.MaxInt
	}
	return max(o.MaxBatchedTokens/o.Ranks, o.PageSize)
}

// spot is what a rank has for a waiting request.
type spot struct {
	rank   int
	found  int // tokens that its cache has
	taken  int // pages that the request finds
	idle   int // of them, those that are counted as available
	whole  int // pages that the request takes
	tokens int // that the step has room for
}

// best is the rank on which a waiting request is to run: of those that have room for all its tokens the one with least load, or one that has some of them already and not much more.
func (p *Schedule) best(r *Request) (best spot, ok bool) {
	o := &p.state.options
	for rank := range p.available {
		if r.Swapped && rank != r.Rank {
			continue
		}
		at := spot{rank: rank, found: r.Computed}
		if !r.Swapped {
			at.found, at.idle = p.cache.Match(r, rank)
			at.taken = o.pagesFor(at.found)
		}
		at.whole = o.pagesFor(r.Target) - at.taken + at.idle
		spare := o.Watermark
		if o.Whole {
			at.whole, spare = r.most(o)-at.taken+at.idle, 0
		} else if p.load[rank] == 0 {
			spare = 0
		}
		if at.whole+p.reserved[rank]+spare > p.available[rank] {
			continue
		}
		at.tokens = p.chunk(rank, at.found, r.Target-at.found, at.found)
		if at.tokens > 0 && (!ok || p.better(at, best)) {
			best, ok = at, true
		}
	}
	return best, ok
}

// better reports whether a request rather runs on rank a than on b, which comes before it.
func (p *Schedule) better(a, b spot) bool {
	x, y := p.load[a.rank], p.load[b.rank]
	switch {
	case a.found > b.found && x <= y+y/4+1: // reading what is cached elsewhere would take longer than a few neighbours more
		return true
	case a.found < b.found && y <= x+x/4+1:
		return false
	case x != y:
		return x < y
	}
	return p.available[a.rank] > p.available[b.rank]
}

// Cached is the most tokens of a waiting request that some rank has.
func (s *State) Cached(cache Cache, r *Request) (most int) {
	for rank := range s.options.ranks() {
		found, _ := cache.Match(r, rank)
		most = max(most, found)
	}
	return most
}
