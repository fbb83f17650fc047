// Package draftmodel drafts with a second model, smaller than the target and of the same vocabulary: one batch computes the next token of all
// sequences, and then the one after it.
package draftmodel

import (
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
)

// Limits is what the draft model's program must be compiled with. Its cache has as many pages as the target's, so that what the target holds of sequences fits, and host memory for
// as many as the target swaps; no more than all sequences can need.
func Limits(target backend.Limits, stepTokens int) backend.Limits {
	lim := backend.Limits{Tokens: max(stepTokens, target.Seqs), Seqs: target.Seqs, Logits: target.Seqs, PageSize: target.PageSize, SeqPages: target.SeqPages, SwapPages: target.SwapPages}
	lim.Pages = lim.Seqs * lim.SeqPages
	if target.Pages > 0 {
		lim.Pages = min(lim.Pages, max(target.Pages, lim.SeqPages))
	}
	return lim
}

// New drafts with a program, which it owns; release frees what is behind it. The program must have all caches in one group and be compiled
// with Limits.
func New(prog compile.Runner, release func() error) (draft.Drafter, error) {
	lim := prog.Limits()
	d := &drafter{prog: prog, release: release, lim: lim, of: map[int64]*sequence{}}
	var err error
	if d.pages, err = kv.New(kv.Options{PageSize: lim.PageSize, Groups: []kv.Group{{Pages: lim.Pages}}, Index: kv.Radix}); err != nil {
		return nil, err
	}
	if lim.SwapPages > 0 {
		if d.host, err = kv.New(kv.Options{PageSize: lim.PageSize, Groups: []kv.Group{{Pages: lim.SwapPages}}, Index: kv.None}); err != nil {
			return nil, err
		}
	}
	if !prog.HostReads() {
		d.buffer = make([]float32, lim.Logits*prog.Vocab())
	}
	return d, nil
}

type drafter struct {
	prog    compile.Runner
	release func() error
	lim     backend.Limits
	pages   *kv.Manager // of the program's cache
	host    *kv.Manager // of its host memory; nil: nothing is swapped
	of      map[int64]*sequence
	calls   int64       // so far
	active  []*sequence // whose next token the step at hand computes
	batch   backend.Batch
	copies  []kv.Copy
	buffer  []float32
	times   draft.StepTimes
	row     float64 // seconds that a row of tokens takes that it catches up on: an average that forgets; 0: it has not done so yet
}

// sequence is what the drafter has of one.
type sequence struct {
	seq      kv.Seq
	away     bool    // its pages are in host memory
	called   int64   // the last call that asked for it
	computed []int32 // tokens whose keys and values are there
	agreed   int     // of them, those known to be the sequence's
	asked    *draft.Sequence
	drafted  []int32
	batched  int // rows in the batch at hand
}

// Name implements draft.Drafter.
func (d *drafter) Name() string { return string(draft.DraftModel) }

// Seconds implements draft.Drafter: a step for each token. It is 0 before the first.
func (d *drafter) Seconds(seqs, tokens int) float64 { return d.times.Seconds(seqs, tokens) }

// usual is how many tokens of a sequence that it is asked for in every step it has not computed, at most.
const usual = 2

// Behind implements draft.Behind.
func (d *drafter) Behind(id int64, tokens int) float64 {
	if x := d.of[id]; x != nil {
		tokens -= len(x.computed)
	}
	return d.row * float64(max(tokens-usual, 0))
}

// Propose implements draft.Drafter. A call computes no more of what is not drafted, such as prompts, than one step has room for; sequences that are
// not at their last token then get no draft.
func (d *drafter) Propose(seqs []draft.Sequence) error {
	d.calls++
	d.active = d.active[:0]
	for i := range seqs {
		s := &seqs[i]
		s.Draft = draft.Draft{}
		if len(s.Tokens)+s.Max > d.lim.SeqPages*d.lim.PageSize || len(d.active) == d.lim.Seqs {
			continue // the draft would be longer than the context, or no row of the step is left
		}
		x := d.of[s.ID]
		if x == nil {
			x = &sequence{}
			d.of[s.ID] = x
		}
		if x.away {
			continue // the target has not brought it back either
		}
		x.asked, x.called, x.drafted = s, d.calls, x.drafted[:0]
		if x.seq.Len() == 0 {
			x.agreed = d.pages.Open(&x.seq, kv.Salt{Own: s.Salt}, s.Tokens)
			x.computed = append(x.computed[:0], s.Tokens[:x.agreed]...)
		}
		x.agree()
		d.pages.Truncate(&x.seq, len(x.computed))
		d.active = append(d.active, x)
	}
	began, n := time.Now(), len(d.active)
	if err := d.step(); err != nil {
		return err
	}
	if rows := len(d.batch.Tokens); rows > 2*usual*n {
		const forget = 0.2
		took := time.Since(began).Seconds() / float64(rows)
		if d.row == 0 {
			d.row = took
		}
		d.row += forget * (min(took, 2*d.row) - d.row) // one long step says little
	}
	for len(d.active) > 0 {
		began := time.Now()
		n := len(d.active)
		if err := d.step(); err != nil {
			return err
		}
		d.times.Observe(n, time.Since(began).Seconds())
	}
	for i := range seqs {
		if x := d.of[seqs[i].ID]; x != nil && x.asked == &seqs[i] {
			seqs[i].Draft.Tokens, x.asked = x.drafted, nil
		}
	}
	return nil
}

// agree forgets computed tokens that the sequence has not come to have, and the last, whose logits are wanted, if it is among them.
func (x *sequence) agree() {
	tokens := x.asked.Tokens
	for x.agreed < len(x.computed) && x.agreed < len(tokens)-1 && x.computed[x.agreed] == tokens[x.agreed] {
		x.agreed++
	}
	x.agreed = min(x.agreed, len(tokens)-1)
	x.computed = x.computed[:x.agreed]
}

// token is token number p of the sequence with its draft.
func (x *sequence) token(p int) int32 {
	if p < len(x.asked.Tokens) {
		return x.asked.Tokens[p]
	}
	return x.drafted[p-len(x.asked.Tokens)]
}

// step computes what there is room for of what the active sequences lack, and drafts a token for those that then lack nothing. The others,
// and those whose draft is done, are not active any more.
func (d *drafter) step() error {
	b, t := &d.batch, &d.batch.Tables
	b.Reset(1, d.lim.SeqPages)
	d.copies = d.copies[:0]
	room, rows, going := d.lim.Tokens, 0, d.active
	d.active = d.active[:0]
	for i, x := range going {
		end := len(x.asked.Tokens) + len(x.drafted)
		from := len(x.computed)
		x.batched = min(end-from, room-(len(going)-1-i)) // a row for each of the others
		if !d.take(x) {
			continue
		}
		d.active = append(d.active, x)
		room -= x.batched
		for p := from; p < from+x.batched; p++ {
			id := x.token(p)
			b.Tokens, b.Positions = append(b.Tokens, id), append(b.Positions, int32(p))
			x.computed = append(x.computed, id)
		}
		(*t)[0].Slots = d.pages.Slots((*t)[0].Slots, &x.seq, 0, x.batched)
		all := len((*t)[0].Pages) + d.lim.SeqPages
		(*t)[0].Pages = d.pages.Table(slices.Grow((*t)[0].Pages, d.lim.SeqPages), &x.seq, 0)[:all]
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen, b.RopeLen = append(b.KVLen, int32(from+x.batched)), append(b.RopeLen, int32(end))
		if from+x.batched == end {
			b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
			rows++
		}
	}
	if len(b.Tokens) == 0 {
		d.active = d.active[:0]
		return nil
	}
	for _, c := range d.copies {
		if err := d.prog.CopyPage(c.Group, c.From, c.To); err != nil {
			return fmt.Errorf("the draft model: %w", err)
		}
	}
	if err := b.Check(d.lim, d.prog.Ids()); err != nil {
		return fmt.Errorf("the draft model: %w", err)
	}
	if err := d.prog.Run(b); err != nil {
		return fmt.Errorf("the draft model: %w", err)
	}
	logits, err := d.prog.Rows(d.buffer, rows)
	if err != nil {
		return fmt.Errorf("the draft model: %w", err)
	}
	d.choose(logits)
	return nil
}

// take gives a sequence the pages for the tokens that the step computes of it. Where there are too few, those that were asked for longest ago lose theirs, but none that this call asks for;
// what they had stays to be found until it is written over.
func (d *drafter) take(x *sequence) (ok bool) {
	for {
		if d.copies, ok = d.pages.Append(&x.seq, x.batched, d.copies); ok {
			d.pages.Publish(&x.seq, x.asked.Tokens)
			return true
		}
		var oldest *sequence
		for _, y := range d.of {
			if y.called < d.calls && !y.away && y.seq.Len() > 0 && (oldest == nil || y.called < oldest.called) {
				oldest = y
			}
		}
		if oldest == nil {
			return false
		}
		d.drop(oldest)
	}
}

// drop gives a sequence's pages back.
func (d *drafter) drop(x *sequence) {
	if x.away {
		d.host.Free(&x.seq)
	} else {
		d.pages.Free(&x.seq)
	}
	x.away, x.computed, x.agreed = false, x.computed[:0], 0
}

// Preempted implements draft.Paged.
func (d *drafter) Preempted(id int64, swapped bool) error {
	x := d.of[id]
	if x == nil || x.away || x.seq.Len() == 0 {
		return nil
	}
	if swapped && d.host != nil {
		if d.copies, x.away = d.pages.Move(&x.seq, d.host, d.copies[:0]); x.away {
			return d.move(d.prog.SwapOut)
		}
	}
	d.drop(x)
	return nil
}

// Resumed implements draft.Paged.
func (d *drafter) Resumed(id int64) error {
	x := d.of[id]
	if x == nil || !x.away {
		return nil
	}
	copies, ok := d.host.Move(&x.seq, d.pages, d.copies[:0])
	if d.copies = copies; !ok {
		d.drop(x)
		return nil
	}
	x.away = false
	return d.move(d.prog.SwapIn)
}

// move has pages moved to host memory, or back.
func (d *drafter) move(by func(group int, from, to []int32) error) error {
	var from, to []int32
	for _, c := range d.copies {
		from, to = append(from, c.From), append(to, c.To)
	}
	return by(0, from, to)
}

// choose drafts a token for each active sequence that has logits, and leaves those active that are to have more.
func (d *drafter) choose(logits []float32) {
	vocab, row := d.prog.Vocab(), 0
	active := d.active[:0]
	for _, x := range d.active {
		s := x.asked
		if len(x.computed) < len(s.Tokens)+len(x.drafted) {
			continue
		}
		id := s.Choose(logits[row*vocab:(row+1)*vocab], x.drafted)
		if row++; id < 0 {
			continue
		}
		if x.drafted = append(x.drafted, id); len(x.drafted) < s.Max && int(id) < d.prog.Ids() {
			active = append(active, x)
		}
	}
	d.active = active
}

// Forget implements draft.Drafter.
func (d *drafter) Forget(id int64, _ []int32) {
	if x := d.of[id]; x != nil {
		d.drop(x)
		delete(d.of, id)
	}
}

// Close implements draft.Drafter.
func (d *drafter) Close() error {
	d.prog.Close()
	return d.release()
}
