package engine

import (
	"errors"
)

// share is what one request gets of a step: its next n tokens are computed.
type share struct {
	r *request
	n int
}

// step moves the chosen requests forward.
func (e *Engine) step() error {
	e.choose()
	if len(e.chosen) == 0 {
		if len(e.running)+len(e.waiting) > 0 {
			return errors.New("no request can move, which is a mistake of the scheduler's")
		}
		return nil
	}
	for _, c := range e.copies {
		if err := e.prog.CopyPage(c.From, c.To); err != nil {
			return err
		}
	}
	e.fill()
	if err := e.batch.Check(e.prog.Limits, e.prog.Vocab()); err != nil {
		return err
	}
	if err := e.prog.Run(&e.batch); err != nil {
		return err
	}
	return e.sample()
}

// fill writes the step's batch.
func (e *Engine) fill() {
	b := &e.batch
	b.Tokens, b.Positions, b.Slots, b.Picked = b.Tokens[:0], b.Positions[:0], b.Slots[:0], b.Picked[:0]
	b.QStart, b.KVLen, b.RopeLen, b.Pages = append(b.QStart[:0], 0), b.KVLen[:0], b.RopeLen[:0], b.Pages[:0]
	b.SeqPages = 1
	for _, s := range e.chosen {
		b.SeqPages = max(b.SeqPages, len(s.r.seq.Table()))
	}
	for _, s := range e.chosen {
		r := s.r
		b.Tokens = append(b.Tokens, r.tokens[r.computed:r.computed+s.n]...)
		for i := range s.n {
			b.Positions = append(b.Positions, int32(r.computed+i))
		}
		b.Slots = e.pool.Slots(b.Slots, &r.seq, s.n)
		r.computed += s.n
		if r.computed == len(r.tokens) {
			b.Picked = append(b.Picked, int32(len(b.Tokens)-1))
		}
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(r.computed))
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
	for _, s := range e.chosen {
		r := s.r
		if r.computed < len(r.tokens) {
			continue
		}
		if err := e.prog.Logits(e.logits, row, 1); err != nil {
			return err
		}
		row++
		choice, err := e.sampler.Sample(e.logits, r.state, nil)
		if err != nil {
			r.finish(e, "", err)
			e.forget(r)
			continue
		}
		if r.take(e, choice) {
			e.forget(r)
		}
	}
	return nil
}

// forget takes a finished request from the running ones.
func (e *Engine) forget(r *request) {
	for i, other := range e.running {
		if other == r {
			e.running = append(e.running[:i], e.running[i+1:]...)
			return
		}
	}
}
