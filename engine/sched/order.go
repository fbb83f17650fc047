package sched

// heldBack reports whether the waiting-served ratio keeps the waiting out of this step.
func (s *State) heldBack() bool {
	o := &s.options
	return len(s.running) > 0 && s.held < o.MaxHeldSteps &&
		float64(s.waiting.len()) < o.WaitingServedRatio*float64(len(s.running))
}

// waitingOrder goes through the waiting requests in the order of the policy, without changing the queue.
type waitingOrder struct {
	state  *State
	now    int64
	taken  int          // requests returned
	marked [window]bool // of the oldest, those returned: for the longest-prefix policy
}

// next is the next request to admit, or nil.
func (p *waitingOrder) next() *Request {
	items := p.state.waiting.items()
	if p.state.options.Policy == LongestPrefix {
		return p.longestPrefix(items[:min(window, len(items))])
	}
	if p.taken == len(items) {
		return nil
	}
	p.taken++
	return items[p.taken-1]
}

// longestPrefix is the oldest of those that have waited too long or, if none has, the one with most in the cache.
func (p *waitingOrder) longestPrefix(items []*Request) *Request {
	best := -1
	for i, r := range items {
		if p.marked[i] {
			continue
		}
		if p.now-r.Arrived > p.state.options.AgingBound {
			best = i
			break
		}
		if best < 0 || r.Cached > items[best].Cached {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	p.marked[best] = true
	return items[best]
}
