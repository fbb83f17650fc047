package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naive schedules by definition, by trying: as few preemptions as let every short request move, and for each prompt the
// longest chunk that the rules allow. It knows neither prices nor the longest-prefix policy.
func naive(s *State, c Cache) string {
	worst := slices.Clone(s.running)
	slices.SortFunc(worst, func(a, b *Request) int {
		if s.waiting.less(a, b) {
			return 1
		}
		return -1
	})
	for k := range len(worst) + 1 {
		if schedule, ok := naiveWithout(s, c, worst[:k], nil); ok {
			return schedule
		}
	}
	// Only prompts run, and no page is left for any of them. The first to run is served, whatever it takes.
	for k := range len(worst) + 1 {
		if schedule, ok := naiveWithout(s, c, worst[:k], s.running[0]); ok {
			return schedule
		}
	}
	panic("unreachable: without any of the running, the schedule is made")
}

// isLess reports whether moving is cheaper than computing again.
func isLess(again, move float64) bool { return move < again }

// naiveWithout schedules with some requests preempted. It reports false if a short one lacks pages, or if nothing moves
// though something runs. first, if not nil, is to get one token.
func naiveWithout(s *State, c Cache, preempted []*Request, first *Request) (string, bool) {
	o := &s.options
	var schedule strings.Builder
	pages, host, budget := c.Available(0), c.HostAvailable(0), o.MaxBatchedTokens
	for _, r := range preempted {
		pages += c.Returns(r)
		n := o.pagesFor(r.Computed)
		swap := o.SwapPrice != nil && n <= host && isLess(o.SwapPrice(r))
		if swap {
			host -= n
		}
		fmt.Fprintf(&schedule, "preempt %d %t\n", r.ID, swap)
	}
	moved, promised := false, 0
	give := func(r *Request, n, need int) {
		pages -= need
		budget -= n
		moved = true
		fmt.Fprintf(&schedule, "%d +%d\n", r.ID, n)
	}
	serve := func(r *Request, n int) bool {
		if need := c.Need(r, n); need <= pages {
			give(r, n, need)
			return true
		}
		return false
	}
	for _, r := range s.running {
		if r.left() <= short && !slices.Contains(preempted, r) && !serve(r, r.left()) {
			return "", false
		}
	}
	for _, r := range s.running {
		if r.left() <= short || slices.Contains(preempted, r) || r == first {
			continue
		}
		n := min(r.left(), budget)
		for n > 0 && (c.Need(r, n) > pages || n < r.left() && (r.Computed+n)%o.PageSize != 0) {
			n--
		}
		promised += c.Need(r, r.left()) - c.Need(r, n)
		if n > 0 {
			give(r, n, c.Need(r, n))
		}
	}
	if first != nil && !slices.Contains(preempted, first) && !serve(first, 1) {
		return "", false
	}
	if len(preempted) > 0 {
		return schedule.String(), true
	}
	if !moved && len(s.running) > 0 {
		return "", false
	}
	if o.Whole {
		for _, r := range s.running {
			promised += max(r.Texts, 1)*o.pagesFor(r.Limit) - c.Returns(r) - c.Need(r, r.left())
		}
	}
	seqs := len(s.running)
	for _, r := range s.waiting.items() {
		found, idle, has := r.Computed, 0, 0
		if !r.Swapped {
			found, idle = c.Match(r, 0)
			has = found / o.PageSize
		}
		spare := o.Watermark
		if seqs == 0 || o.Whole {
			spare = 0
		}
		need := func(n int) int { return o.pagesFor(found+n) - has + idle }
		n := min(r.Target-found, budget)
		for n > 0 && n < r.Target-found && (found+n)%o.PageSize != 0 {
			n--
		}
		whole := need(r.Target - found)
		if o.Whole {
			whole = max(r.Texts, 1)*o.pagesFor(r.Limit) - has + idle
		}
		if seqs == o.MaxSeqs || n == 0 || o.Whole && found+n < r.Target || whole+promised+spare > pages {
			break
		}
		promised += whole - need(n)
		give(r, n, need(n))
		seqs++
	}
	return schedule.String(), true
}

// written is a schedule in the words of naive.
func written(p *Schedule) string {
	var text strings.Builder
	for _, v := range p.Preempt {
		fmt.Fprintf(&text, "preempt %d %t\n", v.Request.ID, v.Swap)
	}
	for _, c := range p.Chunks {
		fmt.Fprintf(&text, "%d +%d\n", c.Request.ID, c.Tokens)
	}
	return text.String()
}

func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulationOf(t, 1)
		o := &s.state.options
		o.TargetITL, o.ITLRatio, o.WaitingServedRatio = 0, 0, 0
		o.MaxBatchedTokens += short * o.MaxSeqs // answers never compete for tokens
		if o.Policy == LongestPrefix {
			o.Policy = FCFS
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			for range rapid.IntRange(0, 2).Draw(t, "arrivals") {
				s.submit(t)
			}
			want := naive(s.state, s.cache)
			s.state.Schedule(&s.schedule, s.cache, s.now)
			if got := written(&s.schedule); got != want {
				t.Fatalf("scheduled\n%swant\n%s", got, want)
			}
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
