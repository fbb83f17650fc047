package sched

// victim is the running request of a rank that is preempted next: the one that the policy would admit last.
func (p *Schedule) victim(rank int) int {
	last := -1
	for i, r := range p.state.running {
		if r.Rank == rank && !p.dropped[i] && (last < 0 || p.state.waiting.less(p.state.running[last], r)) {
			last = i
		}
	}
	return last
}

// preempt schedules to take a running request's pages, and takes back what the schedule gave it.
func (p *Schedule) preempt(i int) {
	o := &p.state.options
	r := p.state.running[i]
	p.dropped[i] = true
	p.available[r.Rank] += p.cache.Returns(r)
	p.load[r.Rank]--
	if at := p.chunkOf[i]; at > 0 {
		c := &p.Chunks[at-1]
		p.available[r.Rank] += c.pages
		p.budget += c.Tokens
		p.Shape = p.Shape.Sub(c.from, c.Tokens, c.Logits)
		c.Tokens = 0
	}
	swap := false
	if pages := o.pagesFor(r.Computed); o.SwapPrice != nil && pages <= p.host[r.Rank] {
		recompute, move := o.SwapPrice(r)
		if swap = move < recompute; swap {
			p.host[r.Rank] -= pages
		}
	}
	p.Preempt = append(p.Preempt, Preemption{r, swap})
}
