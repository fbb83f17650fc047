package hiddenmodel

import (
	"slices"
	"testing"
)

// TestPrefix: what is drafted for a sequence whose beginning the target has not computed, since it was in its prefix cache, is as if the layer had
// computed it, while another sequence has it in its slot, when that has ended, and in the slot that it had; but not for another salt.
func TestPrefix(t *testing.T) {
	r, files := newMTP(t, 0)
	first := func(p int) []float64 { return r.states[0][p] }
	tokens := []int32{3, 14, 15, 9, 26, 5, 35, 8, 30}
	r.id = 1
	r.step(tokens, 0, 8, 8, tokens)
	if drafted, _ := r.draft(tokens, 2); len(drafted) != 2 {
		t.Fatalf("%v is drafted", drafted)
	}
	for i, c := range []struct {
		from  int // the first position that the target computes
		same  int // tokens that are those of the first sequence
		salt  uint64
		ended int64 // before
		begin int   // the first position whose row the layer has
	}{
		{from: 6, same: 7},           // beside the first, in the other slot
		{from: 4, same: 6, ended: 1}, // in the slot of the first
		{from: 5, same: 6, ended: 2}, // in the other again
		{from: 4, same: 9, salt: 1, begin: 4, ended: 3},
	} {
		r.d.Forget(c.ended, nil)
		r.id, r.salt = int64(2+i), c.salt
		own := append(slices.Clone(tokens[:c.same]), 40, 41, 42, int32(30+i))
		r.step(own, c.from, len(own)-1-c.from, len(own)-1-c.from, own)
		drafted, logits := r.draft(own, 3)
		if len(drafted) != 3 {
			t.Fatalf("case %d: %v is drafted", i, drafted)
		}
		layer := &formula{files: files, layer: "model.layers.2"}
		r.check(own, drafted, logits, first, func(token int32, before []float64, position int) ([]float64, []float64) {
			if position < c.begin {
				return nil, nil
			}
			return layer.mtp(token, before, position)
		})
	}
}

// TestPrefixWaits: a sequence has its beginning from another also when nothing was drafted after the step that began it.
func TestPrefixWaits(t *testing.T) {
	r, files := newMTP(t, 0)
	tokens := []int32{3, 14, 15, 9, 26, 5, 35, 8, 30}
	r.id = 1
	r.step(tokens, 0, 8, 8, tokens)
	if _, logits := r.draft(tokens, 1); len(logits) != 1 {
		t.Fatal("nothing is drafted")
	}
	r.id = 2
	r.step(tokens, 6, 2, 2, tokens)
	more := append(slices.Clone(tokens), 7)
	r.step(more, 8, 1, 1, more)
	drafted, logits := r.draft(more, 2)
	if len(drafted) != 2 {
		t.Fatalf("%v is drafted", drafted)
	}
	r.check(more, drafted, logits, func(p int) []float64 { return r.states[0][p] }, (&formula{files: files, layer: "model.layers.2"}).mtp)
}
