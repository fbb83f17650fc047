// Package layerskip drafts with the target's own first layers and its head (LayerSkip, Elhoushi et al., arXiv:2404.16710): it has no weights and no cache of
// its own. The keys and values that the target's first layers have of a sequence are those that the draft goes on from; what the draft writes, the step
// that verifies it writes again, with all layers.
package layerskip

import (
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
)

// New drafts with a program of the target's first layers in the target's cache (compile.Program.Part), which it owns. release frees what is behind it.
func New(prog compile.Runner, release func() error) draft.Drafter {
	d := &drafter{prog: prog, release: release, lim: prog.Limits()}
	if !prog.HostReads() {
		d.buffer = make([]float32, d.lim.Logits*prog.Vocab())
	}
	return d
}

type drafter struct {
	prog    compile.Runner
	release func() error
	lim     backend.Limits
	batch   backend.Batch
	buffer  []float32
	active  []int // sequences that are to have another token
	drafted [][]int32
	times   draft.StepTimes
}

// Name implements draft.Drafter.
func (d *drafter) Name() string { return string(draft.LayerSkip) }

// InCache implements draft.InCache.
func (d *drafter) InCache() bool { return true }

// Seconds implements draft.Drafter: a step for each token. It is 0 before the first.
func (d *drafter) Seconds(seqs, tokens int) float64 { return d.times.Seconds(seqs, tokens) }

// Propose implements draft.Drafter.
func (d *drafter) Propose(seqs []draft.Sequence) error {
	d.active = d.active[:0]
	rows := 0
	for i := range seqs {
		seqs[i].Draft = draft.Draft{}
		if i == len(d.drafted) {
			d.drafted = append(d.drafted, nil)
		}
		d.drafted[i] = d.drafted[i][:0]
		first := len(seqs[i].Tokens) - seqs[i].Computed
		if len(seqs[i].Cache) == 0 || rows+first > d.lim.Tokens || len(d.active) == d.lim.Logits {
			continue
		}
		rows += first
		d.active = append(d.active, i)
	}
	for len(d.active) > 0 {
		began, n := time.Now(), len(d.active)
		if err := d.step(seqs); err != nil {
			return fmt.Errorf("the model's first layers: %w", err)
		}
		d.times.Observe(n, time.Since(began).Seconds())
	}
	for i := range seqs {
		seqs[i].Draft.Tokens = d.drafted[i]
	}
	return nil
}

// step drafts a token for each active sequence.
func (d *drafter) step(seqs []draft.Sequence) error {
	b := &d.batch
	b.Reset(len(seqs[d.active[0]].Cache), d.lim.SeqPages)
	for _, i := range d.active {
		q, drafted := &seqs[i], d.drafted[i]
		end := len(q.Tokens) + len(drafted)
		from := end - 1
		if len(drafted) == 0 {
			from = q.Computed
		}
		for p := from; p < end; p++ {
			id := int32(0)
			if p < len(q.Tokens) {
				id = q.Tokens[p]
			} else {
				id = drafted[p-len(q.Tokens)]
			}
			b.Tokens, b.Positions = append(b.Tokens, id), append(b.Positions, int32(p))
		}
		for g, lent := range q.Cache {
			t := &b.Tables[g]
			t.Slots = append(t.Slots, lent.Slots[from-q.Computed:end-q.Computed]...)
			t.Pages = append(t.Pages, lent.Pages...)
			for n := len(lent.Pages); n < d.lim.SeqPages; n++ {
				t.Pages = append(t.Pages, lent.Pages[0])
			}
		}
		b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
		b.QStart, b.KVLen, b.RopeLen = append(b.QStart, int32(len(b.Tokens))), append(b.KVLen, int32(end)), append(b.RopeLen, int32(end))
	}
	if err := b.Check(d.lim, d.prog.Ids()); err != nil {
		return err
	}
	if err := d.prog.Run(b); err != nil {
		return err
	}
	logits, err := d.prog.Rows(d.buffer, len(d.active))
	if err != nil {
		return err
	}
	vocab, active := d.prog.Vocab(), d.active[:0]
	for row, i := range d.active {
		q := &seqs[i]
		id := q.Choose(logits[row*vocab:(row+1)*vocab], d.drafted[i])
		if id < 0 {
			continue
		}
		if d.drafted[i] = append(d.drafted[i], id); len(d.drafted[i]) < q.Max && int(id) < d.prog.Ids() {
			active = append(active, i)
		}
	}
	d.active = active
	return nil
}

// Forget implements draft.Drafter.
func (d *drafter) Forget(int64, []int32) {}

// Close implements draft.Drafter.
func (d *drafter) Close() error {
	d.prog.Close()
	return d.release()
}
