package engine

// choose decides what moves in this step: every running request first, one token or a chunk of its prompt, then
// waiting ones in the order in which they came, as long as the step's rows and the cache's pages last. When a running
// request finds no page, the one that came last gives its pages back and waits at the head of the queue; what it
// had computed is computed again.
func (e *Engine) choose() {
	lim := e.prog.Limits
	e.chosen, e.copies = e.chosen[:0], e.copies[:0]
	left := lim.Tokens
	for i := 0; i < len(e.running); i++ {
		r := e.running[i]
		n := min(len(r.tokens)-r.computed, left)
		if n == 0 {
			continue
		}
		for !e.reserve(r, n) {
			last := e.running[len(e.running)-1]
			e.running = e.running[:len(e.running)-1]
			e.pool.Free(&last.seq)
			last.computed = 0
			e.waiting = append([]*request{last}, e.waiting...)
			if last == r {
				return
			}
		}
		e.chosen = append(e.chosen, share{r, n})
		left -= n
	}
	for left > 0 && len(e.waiting) > 0 && len(e.running) < lim.Seqs {
		r := e.waiting[0]
		r.computed = e.pool.Open(&r.seq, 0, r.tokens)
		n := min(len(r.tokens)-r.computed, left)
		if !e.reserve(r, n) {
			e.pool.Free(&r.seq)
			r.computed = 0
			return
		}
		if r.output == 0 {
			r.cached = r.computed
		}
		e.waiting = e.waiting[1:]
		e.running = append(e.running, r)
		e.chosen = append(e.chosen, share{r, n})
		left -= n
	}
}

// reserve gets slots for the request's next n tokens.
func (e *Engine) reserve(r *request, n int) bool {
	var ok bool
	e.copies, ok = e.pool.Append(&r.seq, n, e.copies)
	if ok {
		e.pool.Publish(&r.seq, r.tokens)
	}
	return ok
}
