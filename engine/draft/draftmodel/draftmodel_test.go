package draftmodel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
)

const vocab = 7

// says is what the model of the tests goes on with after a text.
func says(text []int32) int32 {
	h := uint32(2166136261)
	for _, id := range text {
		h = (h ^ uint32(id)) * 16777619
	}
	return int32(h >> 8 % vocab)
}

// remembers is a model whose cache holds tokens: what it says of a row depends on all that the row sees there.
type remembers struct {
	compile.Runner // nil: what is not below is not called
	lim            backend.Limits
	cache, host    []int32 // [pages, page size]
	logits         []float32
	rows           int // so far
}

func newRemembers(lim backend.Limits) *remembers {
	return &remembers{lim: lim, cache: make([]int32, lim.Pages*lim.PageSize), host: make([]int32, lim.SwapPages*lim.PageSize)}
}

func (r *remembers) Limits() backend.Limits { return r.lim }
func (r *remembers) HostReads() bool        { return true }
func (r *remembers) Vocab() int             { return vocab }
func (r *remembers) Ids() int               { return vocab }
func (r *remembers) Close()                 {}

func (r *remembers) Rows([]float32, int) ([]float32, error) { return r.logits, nil }

func (r *remembers) page(of []int32, p int32) []int32 {
	return of[int(p)*r.lim.PageSize:][:r.lim.PageSize]
}

func (r *remembers) CopyPage(_ int, from, to int32) error {
	copy(r.page(r.cache, to), r.page(r.cache, from))
	return nil
}

func (r *remembers) SwapOut(_ int, from, to []int32) error {
	for i := range from {
		copy(r.page(r.host, to[i]), r.page(r.cache, from[i]))
	}
	return nil
}

func (r *remembers) SwapIn(_ int, from, to []int32) error {
	for i := range from {
		copy(r.page(r.cache, to[i]), r.page(r.host, from[i]))
	}
	return nil
}

func (r *remembers) Run(b *backend.Batch) error {
	r.rows += len(b.Tokens)
	for i, slot := range b.Tables[0].Slots {
		r.cache[slot] = b.Tokens[i]
	}
	r.logits = r.logits[:0]
	for i, n := range b.KVLen {
		if !slices.Contains(b.LogitsIndices, b.QStart[i+1]-1) {
			continue
		}
		var text []int32
		for at := range n {
			text = append(text, r.page(r.cache, b.Tables[0].Pages[i*b.SeqPages+int(at)/r.lim.PageSize])[int(at)%r.lim.PageSize])
		}
		row := make([]float32, vocab)
		row[says(text)] = 1
		r.logits = append(r.logits, row...)
	}
	return nil
}

// TestPages: whatever sequences begin with, grow by, lose, and are moved to, with pages for all and for hardly two, what is drafted is what the model says of the text alone; pages
// come back, and of beginnings in common one is computed.
func TestPages(t *testing.T) {
	for _, pages := range []int{40, 11} {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(pages)))
			lim := Limits(backend.Limits{Seqs: 4, PageSize: 4, SeqPages: 10, Pages: pages, SwapPages: 12}, 24)
			model := newRemembers(lim)
			made, err := New(model, func() error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			d := made.(*drafter)
			texts, away := map[int64][]int32{}, map[int64]bool{}
			drafted, wanted, lengths := 0, 0, 0
			for round := range 3000 {
				id := int64(r.IntN(7))
				switch n := r.IntN(12); {
				case texts[id] == nil:
					texts[id] = slices.Repeat([]int32{int32(r.IntN(2))}, 9+r.IntN(12))
					lengths += len(texts[id])
				case n == 0 || len(texts[id]) > 30:
					d.Forget(id, texts[id])
					delete(texts, id)
					delete(away, id)
					continue
				case n == 1 && !away[id]:
					away[id] = r.IntN(2) == 0
					if err := d.Preempted(id, away[id]); err != nil {
						t.Fatal(err)
					}
				case n == 2 && away[id]:
					away[id] = false
					if err := d.Resumed(id); err != nil {
						t.Fatal(err)
					}
				}
				var seqs []draft.Sequence
				for id := range int64(7) {
					if texts[id] != nil && !away[id] && r.IntN(3) > 0 {
						seqs = append(seqs, draft.Sequence{ID: id, Salt: uint64(id % 2), Tokens: texts[id], Max: 1 + r.IntN(4), Choose: func(logits []float32, _ []int32) int32 { return int32(slices.Index(logits, 1)) }})
					}
				}
				if err := d.Propose(seqs); err != nil {
					t.Fatal(err)
				}
				for _, q := range seqs {
					text := slices.Clone(q.Tokens)
					for _, id := range q.Draft.Tokens {
						if want := says(text); id != want {
							t.Fatalf("round %d: after %v the model says %d, and %d was drafted", round, text, want, id)
						}
						text = append(text, id)
					}
					wanted++
					if len(q.Draft.Tokens) > 0 {
						drafted++
					}
					accepted := r.IntN(len(q.Draft.Tokens) + 1)
					texts[q.ID] = append(append(slices.Clone(q.Tokens), q.Draft.Tokens[:accepted]...), int32(r.IntN(vocab)))
					lengths += accepted + 1
				}
				var here, there []*kv.Seq
				for _, x := range d.of {
					if x.away {
						there = append(there, &x.seq)
					} else {
						here = append(here, &x.seq)
					}
				}
				if err := errors.Join(d.pages.Check(here...), d.host.Check(there...)); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d of %d sequences had a draft; %d rows for %d tokens, %d found", drafted, wanted, model.rows, lengths, d.pages.Stats().Found)
			if drafted < wanted/4 || pages == 40 && drafted < wanted*3/4 || d.pages.Stats().Found == 0 {
				t.Errorf("%d of %d sequences had a draft; %d tokens were found", drafted, wanted, d.pages.Stats().Found)
			}
			for id := range texts {
				d.Forget(id, nil)
			}
			if len(d.of) != 0 || d.pages.Available() != d.pages.Total() || d.host.Available() != d.host.Total() {
				t.Errorf("%d sequences are left, %v of %v pages, %v of the host's %v", len(d.of), d.pages.Available(), d.pages.Total(), d.host.Available(), d.host.Total())
			}
		})
	}
}

// TestLimits: the draft model's cache is as large as the target's in tokens, and no larger than all sequences can need.
func TestLimits(t *testing.T) {
	for want, target := range map[int]backend.Limits{
		100: {Seqs: 8, PageSize: 16, SeqPages: 64, Pages: 100},
		64:  {Seqs: 8, PageSize: 16, SeqPages: 64, Pages: 10}, // one sequence of any length
		512: {Seqs: 8, PageSize: 16, SeqPages: 64, Pages: 4000},
	} {
		if lim := Limits(target, 128); lim.Pages != want || lim.Tokens != 128 || lim.Logits != 8 {
			t.Errorf("%+v: %+v; %d pages wanted", target, lim, want)
		}
	}
}
