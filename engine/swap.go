package engine

import (
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// A preempted request either forgets its pages and is computed again, or has them kept in host memory until it goes on:
// swapped out. Host memory has an account of pages of its own, without an index: requests share nothing there.

// newHost is that account, of one device; nil without host memory.
func newHost(groups []graph.CacheGroup, lim backend.Limits) (*kv.Manager, error) {
	if lim.SwapPages == 0 {
		return nil, nil
	}
	o := kv.Options{PageSize: lim.PageSize, Index: kv.None}
	for i, g := range groups {
		o.Groups = append(o.Groups, kv.Group{Pages: lim.GroupSwapPages(i), Window: g.Window, Recurrent: g.Recurrent})
	}
	return kv.New(o)
}

// SwapLag is what a move of a request's pages takes beside the copying, whose copies are started one by one.
const SwapLag = 50 * time.Microsecond

// swapPrice is what it costs to compute a request's cache again, in steps of so many tokens at most and what price says of each, and to move
// it to host memory and back, µs. Pages that others hold too will be found when it goes on, so only its own count for computing; moved are all.
func (p *pages) swapPrice(r *request, stepTokens int, price func(sched.Shape) float64) (recompute, swap float64) {
	swap = 2e6 * (SwapLag.Seconds() + p.moved(&r.seq)*p.swapPage.Seconds())
	own := min(p.of(r).Returns(&r.seq)[p.main]*p.PageSize(), r.sched.Computed)
	return computing(r.sched.Computed-own, r.sched.Computed, stepTokens, price), swap
}

// computing is what it costs to compute a text's tokens [from, to) in steps of their own, of so many tokens at most, of which the one in the middle is the average:
// what attention takes grows evenly.
func computing(from, to, stepTokens int, price func(sched.Shape) float64) float64 {
	if from >= to {
		return 0
	}
	steps := (to - from + stepTokens - 1) / stepTokens
	n := (to - from + steps - 1) / steps
	before := from + (to-from-n)/2
	return float64(steps) * price(sched.Shape{Tokens: n, Rows: before + n, Pairs: n*before + n*(n+1)/2})
}

// preempt takes the pages of the requests that the schedule chose for it, those to be swapped out after copying them.
func (p *pages) preempt(q *queue) error {
	p.moves = p.moves[:0]
	for _, c := range q.schedule.Preempt {
		r := q.byID[c.Request.ID]
		r.ledger.Preempt()
		p.preemptions++
		if c.Swap {
			before := len(p.moves)
			p.moves, r.away = p.of(r).Move(&r.seq, p.hostOf(r), p.moves)
			p.rebaseMoves(r, p.moves[before:], true)
		}
		if r.away {
			p.away++
			p.swaps++
			continue
		}
		p.of(r).Free(&r.other)
		p.of(r).Free(&r.seq)
		q.state.Forget(c.Request)
	}
	p.out += int64(len(p.moves))
	return p.move(p.prog.SwapOut)
}

// swapIn brings an admitted request's pages back from host memory. If there are too few pages after all, it has to be
// computed again.
func (p *pages) swapIn(r *request) error {
	r.away, r.sched.Swapped = false, false
	p.away--
	var ok bool
	if p.moves, ok = p.hostOf(r).Move(&r.seq, p.of(r), p.moves[:0]); !ok {
		p.hostOf(r).Free(&r.seq)
		return nil
	}
	p.rebaseMoves(r, p.moves, false)
	// Pages that it gets may have been copied from in this step's schedule.
	if err := p.copyPages(); err != nil {
		return err
	}
	p.in += int64(len(p.moves))
	return p.move(p.prog.SwapIn)
}

// rebaseMoves makes pages of a request's rank, and of its swap space, those that all ranks have.
func (p *pages) rebaseMoves(r *request, moves []kv.Copy, out bool) {
	for i := range moves {
		m := &moves[i]
		device, host := &m.From, &m.To
		if !out {
			device, host = host, device
		}
		*device += p.base(r, m.Group)
		*host += int32(r.sched.Rank) * p.hostEach[m.Group]
	}
}

// move has the moves made, those of a cache group at a time.
func (p *pages) move(by func(group int, from, to []int32) error) error {
	for group := range p.Groups() {
		p.from, p.to = p.from[:0], p.to[:0]
		for _, c := range p.moves {
			if c.Group == group {
				p.from, p.to = append(p.from, c.From), append(p.to, c.To)
			}
		}
		if len(p.from) == 0 {
			continue
		}
		if err := by(group, p.from, p.to); err != nil {
			return err
		}
	}
	return nil
}
