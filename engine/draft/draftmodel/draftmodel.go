// Package draftmodel drafts with a second model, smaller than the target and of the same vocabulary: one batch computes the next token of all
// sequences, and then the one after it.
package draftmodel

import (
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
)

// Limits is what the draft model's program must be compiled with, for so many sequences of up to so many pages: each has pages of its own.
func Limits(target backend.Limits, stepTokens int) backend.Limits {
	lim := backend.Limits{Tokens: max(stepTokens, target.Seqs), Seqs: target.Seqs, Logits: target.Seqs, PageSize: target.PageSize, SeqPages: target.SeqPages}
	lim.Pages = lim.Seqs * lim.SeqPages
	return lim
}

// New drafts with a program, which it owns; release frees what is behind it. The program must have all caches in one group and be compiled
// with Limits.
func New(prog compile.Runner, release func() error) draft.Drafter {
	lim := prog.Limits()
	d := &drafter{prog: prog, release: release, lim: lim, owners: draft.NewSlots(lim.Seqs)}
	if !prog.HostReads() {
		d.buffer = make([]float32, lim.Logits*prog.Vocab())
	}
	d.slots = make([]slot, lim.Seqs)
	for i := range d.slots {
		d.slots[i].first = int32(i * lim.SeqPages)
	}
	return d
}

type drafter struct {
	prog    compile.Runner
	release func() error
	lim     backend.Limits
	slots   []slot
	owners  draft.Slots
	active  []*slot // whose next token the step at hand computes
	batch   backend.Batch
	buffer  []float32
	times   draft.StepTimes
	row     float64 // seconds that a row of tokens takes that it catches up on: an average that forgets; 0: it has not done so yet
}

// slot is the part of the cache that a sequence has.
type slot struct {
	first    int32   // page
	computed []int32 // tokens whose keys and values are there
	agreed   int     // of them, those known to be the sequence's
	sequence *draft.Sequence
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
	if slot, has := d.owners.Find(id); has {
		tokens -= len(d.slots[slot].computed)
	}
	return d.row * float64(max(tokens-usual, 0))
}

// Propose implements draft.Drafter. A call computes no more of what is not drafted, such as prompts, than one step has room for; sequences that are
// not at their last token then get no draft.
func (d *drafter) Propose(seqs []draft.Sequence) error {
	d.owners.Call()
	d.active = d.active[:0]
	for i := range seqs {
		s := &seqs[i]
		s.Draft = draft.Draft{}
		if len(s.Tokens)+s.Max > d.lim.SeqPages*d.lim.PageSize {
			continue // the draft would be longer than the context
		}
		slot, fresh := d.owners.Take(s.ID)
		if slot < 0 {
			continue
		}
		x := &d.slots[slot]
		if fresh {
			x.computed, x.agreed = x.computed[:0], 0
		}
		x.sequence, x.drafted = s, x.drafted[:0]
		x.agree()
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
		slot, has := d.owners.Find(seqs[i].ID)
		if !has {
			continue
		}
		if x := &d.slots[slot]; x.sequence == &seqs[i] {
			seqs[i].Draft.Tokens, x.sequence = x.drafted, nil
		}
	}
	return nil
}

// agree forgets computed tokens that the sequence has not come to have, and the last, whose logits are wanted, if it is among them.
func (x *slot) agree() {
	tokens := x.sequence.Tokens
	for x.agreed < len(x.computed) && x.agreed < len(tokens)-1 && x.computed[x.agreed] == tokens[x.agreed] {
		x.agreed++
	}
	x.agreed = min(x.agreed, len(tokens)-1)
	x.computed = x.computed[:x.agreed]
}

// token is token number p of the sequence with its draft.
func (x *slot) token(p int) int32 {
	if p < len(x.sequence.Tokens) {
		return x.sequence.Tokens[p]
	}
	return x.drafted[p-len(x.sequence.Tokens)]
}

// step computes what there is room for of what the active sequences lack, and drafts a token for those that then lack nothing. The others,
// and those whose draft is done, are not active any more.
func (d *drafter) step() error {
	b, size := &d.batch, d.lim.PageSize
	b.Reset(1, d.lim.SeqPages)
	room := d.lim.Tokens
	rows := 0
	for i, x := range d.active {
		end := len(x.sequence.Tokens) + len(x.drafted)
		from := len(x.computed)
		x.batched = min(end-from, room-(len(d.active)-1-i)) // a row for each of the others
		room -= x.batched
		for p := from; p < from+x.batched; p++ {
			id := x.token(p)
			b.Tokens, b.Positions = append(b.Tokens, id), append(b.Positions, int32(p))
			b.Tables[0].Slots = append(b.Tables[0].Slots, (x.first+int32(p/size))*int32(size)+int32(p%size))
			x.computed = append(x.computed, id)
		}
		for p := range int32(d.lim.SeqPages) {
			b.Tables[0].Pages = append(b.Tables[0].Pages, x.first+p)
		}
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

// choose drafts a token for each active sequence that has logits, and leaves those active that are to have more.
func (d *drafter) choose(logits []float32) {
	vocab, row := d.prog.Vocab(), 0
	active := d.active[:0]
	for _, x := range d.active {
		s := x.sequence
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
func (d *drafter) Forget(id int64, _ []int32) { d.owners.Forget(id) }

// Close implements draft.Drafter.
func (d *drafter) Close() error {
	d.prog.Close()
	return d.release()
}
