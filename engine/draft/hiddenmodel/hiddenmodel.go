// Package hiddenmodel drafts with a small model that goes on from the target's hidden states: an MTP layer (DeepSeek-V3, arXiv:2412.19437) or the layer
// of EAGLE (arXiv:2401.15077, arXiv:2503.01840). A row of it is a token with the hidden state of the token before; from it, it predicts the token after, and
// a hidden state that stands for the target's when it goes on from its own prediction. Hidden states never leave the device.
package hiddenmodel

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
)

// Model is the programs that draft, on the target's device, and what of the target they go on from.
type Model struct {
	Name   string
	Target []compile.DeviceRows // of all tokens
	// Combine makes one row of hidden states of several of the target's, its inputs; nil: Target is that row.
	Combine *compile.Program
	// Layer has hidden states as its input and keeps those that it goes on from.
	Layer *compile.Program
	// Tokens are the target's ids of the layer's vocabulary, [Layer.Vocab()]; nil: they are the same.
	Tokens []int32
	Branch int          // tokens that are considered after one, of trees; 0 and 1: drafts are chains
	Vocab  int          // of the target
	Close  func() error // frees what is behind the programs
}

// Limits is what the layer's program, and that which combines, must be compiled with, for Model.Branch: each sequence has pages of its own.
func Limits(target backend.Limits, branch int) backend.Limits {
	lim := backend.Limits{Tokens: target.Tokens, Seqs: target.Seqs, Logits: treeLogits(target, branch), PageSize: target.PageSize, SeqPages: target.SeqPages}
	lim.Pages = lim.Seqs * lim.SeqPages
	return lim
}

// New drafts with a model, whose programs it owns.
func New(m Model) (draft.Drafter, error) {
	if err := checkBranch(m.Branch); err != nil {
		return nil, err
	}
	d := &drafter{Model: m, lim: m.Layer.Limits(), owners: draft.NewSlots(m.Layer.Limits().Seqs), row: make([]float32, m.Vocab)}
	first := []compile.DeviceRows{m.Layer.Input(0)}
	if m.Combine != nil {
		if err := first[0].Takes(m.Combine.Kept(0)); err != nil {
			return nil, err
		}
		first = first[:0]
		for i := range m.Target {
			first = append(first, m.Combine.Input(i))
		}
	}
	for i, from := range m.Target {
		if err := first[i].Takes(from); err != nil {
			return nil, err
		}
	}
	if err := m.Layer.Input(0).Takes(m.Layer.Kept(0)); err != nil {
		return nil, err
	}
	d.first = first
	if !m.Layer.HostReads() {
		d.buffer = make([]float32, d.lim.Logits*m.Layer.Vocab())
	}
	d.slots = make([]slot, d.lim.Seqs)
	for i := range d.slots {
		d.slots[i].number = i
	}
	return d, nil
}

type drafter struct {
	Model
	lim     backend.Limits
	likely  []candidate          // used again
	first   []compile.DeviceRows // inputs that the target's hidden states go to
	slots   []slot
	owners  draft.Slots
	pending []*slot // with rows that the target has computed and the layer has not
	active  []*slot // whose next token the step at hand drafts
	batch   backend.Batch
	copies  rows
	buffer  []float32
	row     []float32 // of the target's vocabulary
	times   draft.StepTimes
}

// slot is the part of the cache that a sequence has.
type slot struct {
	number    int             // of its pages
	positions []int32         // of the rows in the cache, ascending: of tokens whose hidden states nobody kept there is none
	salt      uint64          // of the sequence
	text      []int32         // what the rows are of: tokens up to the one after the last row's position
	fresh     bool            // salt, text and rows are those of the sequence that had the slot before
	computed  draft.Computed  // by the target's last step
	sequence  *draft.Sequence // to draft for; nil: none
	drafted   []int32
	tree      tree
	from      int // row of the step at hand that it goes on from
}

// Name implements draft.Drafter.
func (d *drafter) Name() string { return d.Model.Name }

// Seconds implements draft.Drafter: a step for each token of a chain, or each depth of a tree. It is 0 before the first.
func (d *drafter) Seconds(seqs, tokens int) float64 {
	if d.Trees() {
		tokens = depthOf(tokens)
	}
	return d.times.Seconds(seqs, tokens)
}

// Computed implements draft.FromHidden. Of a sequence of which tokens were taken back, the layer's rows are taken back too.
func (d *drafter) Computed(all []draft.Computed) {
	d.owners.Call() // the sequences of which rows are computed
	d.pending = d.pending[:0]
	for i := range all {
		c := all[i]
		if slot, has := d.owners.Find(c.ID); has && !d.slots[slot].fresh {
			d.slots[slot].cut(c.From)
		}
		c.Rows = c.Rows[:max(0, min(len(c.Rows), len(c.Tokens)-1-c.From))] // each with the token after it
		if len(c.Rows) == 0 || len(c.Tokens) > d.lim.SeqPages*d.lim.PageSize {
			continue
		}
		slot, fresh := d.owners.Take(c.ID)
		if slot < 0 {
			continue
		}
		x := &d.slots[slot]
		x.computed, x.fresh = c, x.fresh || fresh
		d.pending = append(d.pending, x)
	}
}

// cut takes back the rows from a position on.
func (x *slot) cut(position int) {
	n := len(x.positions)
	for n > 0 && int(x.positions[n-1]) >= position {
		n--
	}
	x.positions = x.positions[:n]
	x.text = x.text[:min(len(x.text), position+1)]
}

// Propose implements draft.Drafter. Rows that the target has computed are taken in, also of sequences that nothing is drafted for.
func (d *drafter) Propose(seqs []draft.Sequence) error {
	for i := range seqs {
		s := &seqs[i]
		s.Draft = draft.Draft{}
		slot, has := d.owners.Find(s.ID)
		if !has || !d.owners.Called(slot) || len(s.Tokens)+s.Max > d.lim.SeqPages*d.lim.PageSize {
			continue
		}
		x := &d.slots[slot]
		if x.computed.From+len(x.computed.Rows) != len(s.Tokens)-1 {
			continue // tokens behind the rows are known, as those that a grammar forces
		}
		x.sequence, x.drafted = s, x.drafted[:0]
	}
	if len(d.pending) == 0 {
		return nil
	}
	if err := d.follow(); err != nil {
		return fmt.Errorf("%s: %w", d.Model.Name, err)
	}
	if d.Trees() && len(d.active) > 0 {
		if err := d.grow(); err != nil {
			return fmt.Errorf("%s: %w", d.Model.Name, err)
		}
	}
	for len(d.active) > 0 {
		began, n := time.Now(), len(d.active)
		if err := d.step(); err != nil {
			return fmt.Errorf("%s: %w", d.Model.Name, err)
		}
		d.times.Observe(n, time.Since(began).Seconds())
	}
	for _, x := range d.pending {
		if x.sequence != nil {
			x.sequence.Draft.Tokens, x.sequence = x.drafted, nil
		}
	}
	d.pending = d.pending[:0]
	return nil
}

// follow computes the rows that the target has computed, and drafts a first token of the sequences that are to have any.
func (d *drafter) follow() error {
	began, rows := time.Now(), 0
	d.batch.Reset(1, d.lim.SeqPages)
	d.active = d.active[:0]
	for _, x := range d.pending {
		if err := d.shareBeginning(x); err != nil {
			return err
		}
	}
	for _, x := range d.pending {
		c := &x.computed
		same := min(len(x.text), c.From+1)
		x.text = append(x.text[:same], c.Tokens[same:c.From+1+len(c.Rows)]...)
		d.append(x, c.Tokens[c.From+1:c.From+1+len(c.Rows)], c.From, len(x.positions))
		for i, row := range c.Rows {
			x.positions = append(x.positions, int32(c.From+i))
			if err := d.give(rows, int(row)); err != nil {
				return err
			}
			rows++
		}
		d.want(x)
	}
	if err := d.flush(); err != nil {
		return err
	}
	if d.Combine != nil {
		if err := d.run(d.Combine); err != nil {
			return err
		}
		if err := d.Combine.CopyRows(d.Layer.Input(0), 0, d.Combine.Kept(0), 0, rows); err != nil {
			return err
		}
	}
	if err := d.draft(); err != nil {
		return err
	}
	if n := len(d.pending); rows == n {
		d.times.Observe(n, time.Since(began).Seconds())
	}
	return nil
}

// step drafts the next token of each active sequence from the one that was drafted last and its hidden state. Its row in the cache is behind
// those of the target's tokens and is written over later.
func (d *drafter) step() error {
	d.batch.Reset(1, d.lim.SeqPages)
	going := d.active
	d.active = d.active[:0]
	for i, x := range going {
		from, n := x.from, len(x.drafted)
		d.append(x, x.drafted[n-1:], len(x.sequence.Tokens)+n-2, len(x.positions)+n-1)
		if err := d.Layer.CopyRows(d.Layer.Input(0), i, d.Layer.Kept(0), from, 1); err != nil {
			return err
		}
		d.want(x)
	}
	return d.draft()
}

// append adds a sequence's tokens to the batch: the first belongs to a position of the text, and to an index of the cache.
func (d *drafter) append(x *slot, tokens []int32, position, index int) {
	b := &d.batch
	b.AppendSeq(d.lim, x.number, index, tokens)
	rows := b.Positions[len(b.Positions)-len(tokens):]
	for i := range rows {
		rows[i] = int32(position + i)
	}
	b.RopeLen[len(b.RopeLen)-1] = int32(position + len(tokens))
}

// want asks for the logits of the batch's last row, if its sequence is to have a draft.
func (d *drafter) want(x *slot) {
	if x.sequence == nil {
		return
	}
	x.from = len(d.batch.Tokens) - 1
	d.batch.LogitsIndices = append(d.batch.LogitsIndices, int32(x.from))
	d.active = append(d.active, x)
}

// rows of the target's that lie one behind the other and go to rows that do.
type rows struct{ to, from, n int }

// give has a row of the target's hidden states copied to a row of the first inputs, those that lie one behind the other together; flush copies the
// last of them.
func (d *drafter) give(to, from int) error {
	if c := &d.copies; c.n > 0 && c.from+c.n == from && c.to+c.n == to {
		c.n++
		return nil
	}
	err := d.flush()
	d.copies = rows{to, from, 1}
	return err
}

func (d *drafter) flush() error {
	c := d.copies
	d.copies = rows{}
	for i, to := range d.first {
		if c.n == 0 {
			break
		}
		if err := d.Layer.CopyRows(to, c.to, d.Target[i], c.from, c.n); err != nil {
			return err
		}
	}
	return nil
}

// run computes the batch.
func (d *drafter) run(p *compile.Program) error {
	if err := d.batch.Check(p.Limits(), d.Layer.Ids()); err != nil {
		return err
	}
	return p.Run(&d.batch)
}

// draft computes the batch and drafts a token for each active sequence; those stay active that are to have more.
func (d *drafter) draft() error {
	if err := d.run(d.Layer); err != nil || len(d.active) == 0 || d.Trees() {
		return err
	}
	vocab := d.Layer.Vocab()
	logits, err := d.Layer.Rows(d.buffer, len(d.active))
	if err != nil {
		return err
	}
	going := d.active
	d.active = d.active[:0]
	for i, x := range going {
		id := x.sequence.Choose(d.target(logits[i*vocab:(i+1)*vocab]), x.drafted)
		if id < 0 {
			continue
		}
		if x.drafted = append(x.drafted, id); len(x.drafted) < x.sequence.Max && int(id) < d.Layer.Ids() {
			d.active = append(d.active, x)
		}
	}
	return nil
}

// target is logits of the layer's vocabulary as those of the target's, the others impossible.
func (d *drafter) target(logits []float32) []float32 {
	if d.Tokens == nil {
		return logits
	}
	for i := range d.row {
		d.row[i] = float32(math.Inf(-1))
	}
	for i, id := range d.Tokens {
		d.row[id] = logits[i]
	}
	return d.row
}

// Forget implements draft.Drafter.
func (d *drafter) Forget(id int64, _ []int32) {
	slot, has := d.owners.Find(id)
	if !has {
		return
	}
	d.owners.Forget(id)
	if i := slices.Index(d.pending, &d.slots[slot]); i >= 0 {
		d.pending = slices.Delete(d.pending, i, i+1)
	}
}

// Close implements draft.Drafter.
func (d *drafter) Close() error {
	if d.Combine != nil {
		d.Combine.Close()
	}
	d.Layer.Close()
	return d.Model.Close()
}
