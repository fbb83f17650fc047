package backend

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// Batch is the data of one step: which tokens of which sequences are computed, where their keys and values go, and
// what each may look at. The engine fills it anew each step; its slices are reused.
//
// Rows of one sequence are consecutive, in the order of positions: sequence s has rows QStart[s] to QStart[s+1]. Row
// r at position p attends to positions 0..p of its sequence; they lie in the cache at
// Pages[s×SeqPages + p/PageSize]×PageSize + p%PageSize, this step's tokens included.
type Batch struct {
	Tokens        []int32 // [T] token ids, or placeholders: see FutureTokens
	Positions     []int32 // [T] place in the sequence, from 0
	Segments      []int32 // [T] 1 in the second of two texts that are read together, else 0; empty: all 0
	Slots         []int32 // [T] page × PageSize + offset where this token's keys and values go
	QStart        []int32 // [S+1]
	KVLen         []int32 // [S] cache rows of the sequence once this step's are written
	RopeLen       []int32 // [S] tokens known of the sequence, for rotations that depend on its length
	Pages         []int32 // [S × SeqPages] page ids; entries beyond KVLen do not matter
	SeqPages      int
	LogitsIndices []int32 // [L] rows whose logits are wanted, ascending
	// FutureTokens is how many tokens the previous step samples (backend.Sampler) that the host has not read yet. Token -1-i is the
	// placeholder of the one with sample index i; the device puts the token in its place.
	FutureTokens int
}

// Seqs is the number of sequences.
func (b *Batch) Seqs() int { return len(b.KVLen) }

// Rows is how many rows a value of this kind has in the step.
func (b *Batch) Rows(r graph.Rows) int {
	if r == graph.Logits {
		return len(b.LogitsIndices)
	}
	return len(b.Tokens)
}

// Step is the batch's size, for pricing. It reuses s.
func (b *Batch) Step(s *graph.Step) {
	s.Seqs = s.Seqs[:0]
	for i := range b.KVLen {
		n := int(b.QStart[i+1] - b.QStart[i])
		s.Seqs = append(s.Seqs, graph.Seq{New: n, Past: int(b.KVLen[i]) - n})
	}
	s.Logits = len(b.LogitsIndices)
}

// Check says what is wrong with a batch, so that a mistake of the engine's is a sentence and not a wild read.
func (b *Batch) Check(lim Limits, vocab int) error {
	t, s := len(b.Tokens), len(b.KVLen)
	switch {
	case t == 0 || t > lim.Tokens:
		return fmt.Errorf("backend: a batch of %d tokens; 1 to %d fit", t, lim.Tokens)
	case s > lim.Seqs:
		return fmt.Errorf("backend: a batch of %d sequences; %d fit", s, lim.Seqs)
	case len(b.LogitsIndices) > lim.Logits:
		return fmt.Errorf("backend: logits of %d rows are wanted; %d fit", len(b.LogitsIndices), lim.Logits)
	case len(b.Positions) != t || len(b.Segments) != 0 && len(b.Segments) != t || len(b.Slots) != t || len(b.QStart) != s+1 || len(b.RopeLen) != s || len(b.Pages) != s*b.SeqPages || b.SeqPages > lim.SeqPages:
		return fmt.Errorf("backend: the slices of a batch of %d tokens and %d sequences do not fit together", t, s)
	case b.QStart[0] != 0 || int(b.QStart[s]) != t:
		return fmt.Errorf("backend: sequences cover rows %d to %d of %d", b.QStart[0], b.QStart[s], t)
	}
	for r, id := range b.Tokens {
		if int(id) < -b.FutureTokens || int(id) >= vocab {
			return fmt.Errorf("backend: row %d has token %d; the vocabulary has %d and the previous step samples %d", r, id, vocab, b.FutureTokens)
		}
		if b.Slots[r] < 0 || int(b.Slots[r]) >= lim.Pages*lim.PageSize {
			return fmt.Errorf("backend: row %d writes slot %d of %d", r, b.Slots[r], lim.Pages*lim.PageSize)
		}
	}
	for i := range b.KVLen {
		n, kv := int(b.QStart[i+1]-b.QStart[i]), int(b.KVLen[i])
		if n <= 0 || kv < n || kv > b.SeqPages*lim.PageSize {
			return fmt.Errorf("backend: sequence %d computes %d tokens of %d; its page table holds %d", i, n, kv, b.SeqPages*lim.PageSize)
		}
		pages := (kv + lim.PageSize - 1) / lim.PageSize
		if table := b.Pages[i*b.SeqPages:][:pages]; !below(table, lim.Pages) {
			p := slices.IndexFunc(table, func(id int32) bool { return uint(id) >= uint(lim.Pages) })
			return fmt.Errorf("backend: sequence %d has page %d as its page %d; the cache has %d", i, table[p], p, lim.Pages)
		}
	}
	for _, r := range b.LogitsIndices {
		if r < 0 || int(r) >= t {
			return fmt.Errorf("backend: logits of row %d are wanted; the batch has %d", r, t)
		}
	}
	return nil
}

// below reports whether all ids are 0 to n-1. Of long texts page tables are most of what there is to check: four at a time, and no branch for
// each, since the sign of an id, or of what is left to the largest, shows in the sign of all of them together.
func below(ids []int32, n int) bool {
	last, signs := int32(n-1), int32(0)
	for len(ids) >= 4 {
		a, b, c, d := ids[0], ids[1], ids[2], ids[3]
		signs |= a | b | c | d | (last - a) | (last - b) | (last - c) | (last - d)
		ids = ids[4:]
	}
	for _, id := range ids {
		signs |= id | (last - id)
	}
	return signs >= 0
}
