// Package medusa drafts with Medusa heads (Cai et al., arXiv:2401.10774): from the hidden state that the target sampled a token from, head i
// says what may come i+1 places after that token. The draft is a tree of the likeliest combinations.
package medusa

import (
	"fmt"
	"math"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
)

// branches is how many tokens of each head are considered.
const branches = 8

// New drafts with the programs of Heads.Graphs, which it owns, from what the target keeps: a row for each of those whose logits are wanted, on
// the same device. release frees what is behind the programs.
func New(programs []*compile.Program, target compile.DeviceRows, release func() error) (draft.Drafter, error) {
	if err := programs[0].Input(0).Takes(target); err != nil {
		return nil, fmt.Errorf("medusa: %w", err)
	}
	d := &drafter{programs: programs, target: target, release: release, of: map[int64]*state{}, vocab: programs[0].Vocab()}
	d.buffer = make([]float32, programs[0].Limits().Tokens*d.vocab)
	return d, nil
}

type drafter struct {
	programs []*compile.Program
	target   compile.DeviceRows
	release  func() error
	of       map[int64]*state
	vocab    int
	batch    backend.Batch
	buffer   []float32
	active   []*state
	frontier []node
	seconds  float64 // of a call: an average that forgets
}

// state is what is known of a sequence.
type state struct {
	row    int // of the hidden states that its last token was sampled from
	tokens int // that it had then, that one included; 0: there are none
	likely [][]candidate
	draft  draft.Draft
	seq    *draft.Sequence
}

// candidate is a token with the logarithm of the probability that a head gives it.
type candidate struct {
	token int32
	log   float64
}

// node is a token that may join the tree: candidate rank of the head of its depth, after the parent.
type node struct {
	parent, depth, rank int
	log                 float64 // of the whole branch
}

// Name implements draft.Drafter.
func (d *drafter) Name() string { return string(draft.Medusa) }

// Seconds implements draft.Drafter: all heads are computed in any case.
func (d *drafter) Seconds(int, int) float64 { return d.seconds }

// Trees implements draft.Branching.
func (d *drafter) Trees() bool { return true }

// Computed implements draft.FromHidden.
func (d *drafter) Computed(all []draft.Computed) {
	for _, s := range d.of {
		s.tokens = 0
	}
	for i := range all {
		c := &all[i]
		if c.Last < 0 {
			continue
		}
		s := d.of[c.ID]
		if s == nil {
			s = &state{}
			d.of[c.ID] = s
		}
		s.row, s.tokens = c.Last, len(c.Tokens)
	}
}

// Propose implements draft.Drafter.
func (d *drafter) Propose(seqs []draft.Sequence) error {
	began := time.Now()
	b := &d.batch
	b.Reset(1, 1)
	d.active = d.active[:0]
	for i := range seqs {
		q := &seqs[i]
		q.Draft = draft.Draft{}
		s := d.of[q.ID]
		if s == nil || s.tokens != len(q.Tokens) {
			continue // the last token was not sampled, but forced or computed again
		}
		s.seq, s.likely = q, s.likely[:0]
		d.active = append(d.active, s)
		row := int32(len(b.Tokens))
		b.Tokens, b.Positions = append(b.Tokens, 0), append(b.Positions, 0)
		b.QStart, b.KVLen, b.RopeLen = append(b.QStart, row+1), append(b.KVLen, 1), append(b.RopeLen, 1)
		b.Tables[0].Slots, b.Tables[0].Pages = append(b.Tables[0].Slots, 0), append(b.Tables[0].Pages, 0)
	}
	if len(d.active) == 0 {
		return nil
	}
	for _, p := range d.programs {
		if err := d.give(p); err != nil {
			return err
		}
		if err := p.Run(b); err != nil {
			return err
		}
		if err := p.Logits(d.buffer, 0, len(d.active)); err != nil {
			return err
		}
		for i, s := range d.active {
			s.likely = append(s.likely, likeliest(d.buffer[i*d.vocab:(i+1)*d.vocab]))
		}
	}
	for _, s := range d.active {
		d.tree(s)
		s.seq.Draft, s.seq = s.draft, nil
	}
	const forget = 0.1
	took := time.Since(began).Seconds()
	if d.seconds == 0 {
		d.seconds = took
	}
	d.seconds += forget * (min(took, 2*d.seconds) - d.seconds) // one long call says little
	return nil
}

// give copies the hidden states of the active sequences to a head's rows, those that lie one behind the other together.
func (d *drafter) give(p *compile.Program) error {
	for i := 0; i < len(d.active); {
		from, n := d.active[i].row, 1
		for i+n < len(d.active) && d.active[i+n].row == from+n {
			n++
		}
		if err := p.CopyRows(p.Input(0), i, d.target, from, n); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// tree makes a sequence's draft: of all combinations of the heads' tokens those that are likeliest as a whole, the likeliest first. A token's
// parent is likelier than it is, and so comes before it.
func (d *drafter) tree(s *state) {
	t := &s.draft
	t.Tokens, t.Parents = t.Tokens[:0], t.Parents[:0]
	d.frontier = append(d.frontier[:0], node{parent: -1, log: s.likely[0][0].log})
	for len(t.Tokens) < s.seq.Max && len(d.frontier) > 0 {
		best := 0
		for i := range d.frontier {
			if d.frontier[i].log > d.frontier[best].log {
				best = i
			}
		}
		n, at := d.frontier[best], len(t.Tokens)
		all := s.likely[n.depth]
		t.Tokens, t.Parents = append(t.Tokens, all[n.rank].token), append(t.Parents, n.parent)
		d.frontier[best] = d.frontier[len(d.frontier)-1]
		d.frontier = d.frontier[:len(d.frontier)-1]
		if n.rank+1 < len(all) {
			d.frontier = append(d.frontier, node{n.parent, n.depth, n.rank + 1, n.log - all[n.rank].log + all[n.rank+1].log})
		}
		if n.depth+1 < len(s.likely) {
			d.frontier = append(d.frontier, node{at, n.depth + 1, 0, n.log + s.likely[n.depth+1][0].log})
		}
	}
}

// likeliest is the likeliest tokens of a row of logits, the likeliest first.
func likeliest(logits []float32) []candidate {
	var list []candidate
	top := float32(math.Inf(-1))
	for id, x := range logits {
		top = max(top, x)
		if len(list) == branches && float64(x) <= list[branches-1].log {
			continue
		}
		at := len(list)
		for at > 0 && list[at-1].log < float64(x) {
			at--
		}
		if len(list) < branches {
			list = append(list, candidate{})
		}
		copy(list[at+1:], list[at:])
		list[at] = candidate{int32(id), float64(x)}
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x - top))
	}
	for i := range list {
		list[i].log -= float64(top) + math.Log(sum)
	}
	return list
}

// Forget implements draft.Drafter.
func (d *drafter) Forget(id int64, _ []int32) { delete(d.of, id) }

// Close implements draft.Drafter.
func (d *drafter) Close() error {
	for _, p := range d.programs {
		p.Close()
	}
	return d.release()
}
