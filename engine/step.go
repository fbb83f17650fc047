package engine

import (
	"runtime/debug"
	"time"

	"github.com/ridge-llm/ridge/engine/sample"
)

// step moves the requests that the plan chooses forward.
func (e *Engine) step() error {
	began := time.Now()
	e.state.Refresh(cache{e})
	e.state.Plan(&e.plan, cache{e}, int64(time.Since(e.started)))
	e.state.Commit(&e.plan)
	if e.reserve(); len(e.chosen) == 0 {
		return nil
	}
	if err := e.run(); err != nil {
		return err
	}
	if err := e.sample(); err != nil {
		return err
	}
	e.stats.record(len(e.batch.Tokens), time.Since(began))
	return nil
}

// reserve carries the plan out on the account of pages. A request for which there turns out to be no page, because
// another of the same plan found more in the cache than was foreseen, waits for the next step.
func (e *Engine) reserve() {
	e.chosen, e.copies = e.chosen[:0], e.copies[:0]
	for _, p := range e.plan.Preempt {
		e.pool.Free(&e.byID[p.Request.ID].seq)
		e.stats.Preemptions++
	}
	for _, c := range e.plan.Chunks {
		r := e.byID[c.Request.ID]
		if c.Admit {
			found := e.pool.Open(&r.seq, r.Salt, e.shareable(r))
			if r.output == 0 {
				r.cached = found
			}
		} else {
			e.pool.Extend(&r.seq, e.shareable(r))
		}
		r.step = min(c.Tokens, r.sched.Target-r.seq.Len())
		var ok bool
		if e.copies, ok = e.pool.Append(&r.seq, r.step, e.copies); ok {
			e.pool.Publish(&r.seq, e.shareable(r))
			e.chosen = append(e.chosen, r)
		}
		r.sched.Computed = r.seq.Len()
	}
}

// run computes the step.
func (e *Engine) run() error {
	for _, c := range e.copies {
		if err := e.prog.CopyPage(c.From, c.To); err != nil {
			return err
		}
	}
	e.fill()
	if err := e.batch.Check(e.prog.Limits, e.prog.Vocab()); err != nil {
		return err
	}
	if e.onlyHidden() {
		return e.prog.RunBody(&e.batch)
	}
	return e.prog.Run(&e.batch)
}

// fill writes the step's batch.
func (e *Engine) fill() {
	b := &e.batch
	b.Tokens, b.Positions, b.Slots, b.Picked = b.Tokens[:0], b.Positions[:0], b.Slots[:0], b.Picked[:0]
	b.QStart, b.KVLen, b.RopeLen, b.Pages = append(b.QStart[:0], 0), b.KVLen[:0], b.RopeLen[:0], b.Pages[:0]
	b.SeqPages = 1
	for _, r := range e.chosen {
		b.SeqPages = max(b.SeqPages, len(r.seq.Table()))
	}
	for _, r := range e.chosen {
		end := r.seq.Len()
		for p := end - r.step; p < end; p++ {
			b.Tokens = append(b.Tokens, r.tokens[p])
			b.Positions = append(b.Positions, int32(p))
		}
		b.Slots = e.pool.Slots(b.Slots, &r.seq, r.step)
		if end == len(r.tokens) {
			b.Picked = append(b.Picked, int32(len(b.Tokens)-1))
		}
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(end))
		b.RopeLen = append(b.RopeLen, int32(len(r.tokens)))
		pages := r.seq.Table()
		b.Pages = append(b.Pages, pages...)
		for range b.SeqPages - len(pages) {
			b.Pages = append(b.Pages, 0)
		}
	}
}

// sample draws the next token of every request that has reached its end.
func (e *Engine) sample() error {
	row := 0
	for i, r := range e.chosen {
		if r.Hidden != nil {
			reason, err := e.embed(r, int(e.batch.QStart[i]), row)
			if r.seq.Len() == len(r.tokens) {
				row++
			}
			if reason != "" || err != nil {
				e.end(r, reason, err)
			}
			continue
		}
		if r.seq.Len() < len(r.tokens) {
			continue
		}
		if err := e.prog.Logits(e.logits, row, 1); err != nil {
			return err
		}
		row++
		reason, err := e.advance(r)
		if reason != "" || err != nil {
			e.end(r, reason, err)
		}
	}
	return nil
}

// advance samples one request's next token from e.logits and hands it over. A panic on the way ends that request alone.
func (e *Engine) advance(r *request) (reason sample.Reason, err error) {
	defer func() {
		if p := recover(); p != nil {
			reason, err = "", &PanicError{p, debug.Stack()}
		}
	}()
	var mask []uint32
	if r.Grammar != nil {
		mask = e.mask
		if err := r.Grammar.Mask(mask); err != nil {
			return "", err
		}
	}
	choice, err := e.sampler.Sample(e.logits, r.sampling, mask)
	if err != nil {
		return "", err
	}
	if r.Grammar != nil {
		if err := r.Grammar.Accept(choice.Token); err != nil {
			return "", err
		}
	}
	before := r.output
	reason = r.take(choice)
	e.stats.Output += int64(r.output - before)
	return reason, nil
}
