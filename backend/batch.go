package backend

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// Batch is the data of one step: which tokens of which sequences are computed, where their keys and values go, and
// what each may look at. The engine fills it anew each step; its slices are reused.
//
// Rows of one sequence are consecutive, in the order of its tokens: sequence s has rows QStart[s] to QStart[s+1]. Row r is
// the sequence's token number k = KVLen[s] - QStart[s+1] + r, its key index: it attends to tokens 0..k of its sequence, or
// to those of them that are in the window. Token k lies in the caches of a group at
// Pages[s×SeqPages + k/PageSize]×PageSize + k%PageSize of the group's table, this step's tokens included. Positions are for
// rotations and embeddings alone.
//
// The last TreeLen[s] rows of a sequence may be a token tree, which speculative decoding verifies: several continuations of what comes
// before. A row of a tree attends to all tokens before the tree and, of the tree, to its ancestors and itself. Its key index is
// its place in the batch as ever; windows count from its depth.
type Batch struct {
	Tokens []int32 // [T] token ids; or placeholders: see FutureTokens
	// Positions are what rotations and embeddings by position take for the token's place in its text, from 0: [T] or, of rotations over
	// three axes (graph.Rotation.Sections), [3 × T], those of time, height and width one behind the other. [T] stands for three alike.
	Positions []int32
	Segments  []int32 // [T] 1 in the second of two texts that are read together, else 0; empty: all 0
	QStart    []int32 // [S+1]
	KVLen     []int32 // [S] tokens of the sequence that are in the cache once this step's are written
	RopeLen   []int32 // [S] tokens known of the sequence, for rotations that depend on its length
	TreeLen   []int32 // [S] rows of the sequence's token tree, MaxTree at most; 0: it has none. Empty: none has
	// Ancestors is [T], of rows of trees: bit i is row i of the tree, one that the row attends to. Bit 0, the root, is in all of them, and so is
	// the row itself. Empty without trees.
	Ancestors []uint64
	// Embeddings are [n, hidden], the rows that are given as embeddings, and EmbeddingRows, [n], which rows of the step they are. Their Tokens are
	// any ids. The embeddings are what the model's table of tokens, scaled, would have.
	Embeddings    []float32
	EmbeddingRows []int32
	// Seen is [T], which keys each row attends to where that does not follow from the other fields, since the caches have a part of every sequence's keys. Empty: it does.
	Seen     []Keys
	Tables   []Table // of each of the graph's cache groups; a single one stands for all of them
	SeqPages int     // length of a sequence's row in Table.Pages
	// LogitsIndices are the rows whose logits are wanted, [L], ascending. A sequence may have none, one or several.
	LogitsIndices []int32
	// Adapters are those of sequences that have any, by slot, and of one slot by sequence.
	Adapters []SeqAdapter
	// FutureTokens is how many tokens the previous step samples (backend.Sampler) that the host has not read yet. Token -1-i is the
	// placeholder of the one with sample index i; the device puts the token in its place.
	FutureTokens int
}

// Table says where a group of caches has the tokens of the batch's sequences. A page that lies wholly before the windows of all the
// step's rows of its sequence is not part of any result, and need not be held; its entry is a page of the cache all the same, the
// first that is held: kernels read keys by the tile and may touch some that they mask.
type Table struct {
	Slots []int32 // [T] page × PageSize + offset where this step's keys and values go
	Pages []int32 // [S × SeqPages] page ids; entries beyond KVLen do not matter
	// States is, of a recurrent group, all there is: [S] the page with each sequence's state. A sequence whose first token the step
	// computes starts from zero, whatever is in it.
	States []int32
}

// Reset empties the batch and gives it so many tables; memory is kept.
func (b *Batch) Reset(tables, seqPages int) {
	b.Tokens, b.Positions, b.Segments, b.LogitsIndices = b.Tokens[:0], b.Positions[:0], b.Segments[:0], b.LogitsIndices[:0]
	b.QStart, b.KVLen, b.RopeLen = append(b.QStart[:0], 0), b.KVLen[:0], b.RopeLen[:0]
	b.TreeLen, b.Ancestors = b.TreeLen[:0], b.Ancestors[:0]
	b.Embeddings, b.EmbeddingRows, b.Seen = b.Embeddings[:0], b.EmbeddingRows[:0], b.Seen[:0]
	b.SeqPages, b.FutureTokens, b.Adapters = seqPages, 0, b.Adapters[:0]
	for len(b.Tables) < tables {
		b.Tables = append(b.Tables, Table{})
	}
	b.Tables = b.Tables[:tables]
	for i := range b.Tables {
		t := &b.Tables[i]
		t.Slots, t.Pages, t.States = t.Slots[:0], t.Pages[:0], t.States[:0]
	}
}

// Table is the table of a cache group.
func (b *Batch) Table(group int) *Table { return &b.Tables[min(group, len(b.Tables)-1)] }

// Past is how many tokens of sequence s were in the cache before this step.
func (b *Batch) Past(s int) int { return int(b.KVLen[s] - (b.QStart[s+1] - b.QStart[s])) }

// Seqs is the number of sequences.
func (b *Batch) Seqs() int { return len(b.KVLen) }

// RankOf is which of the devices with sequences of their own (Limits.Ranks) has a sequence: the one whose pages those of the sequence are.
func (b *Batch) RankOf(lim Limits, s int) int {
	for i := range b.Tables {
		each := max(lim.GroupPages(i)/max(lim.Ranks, 1), 1)
		switch t := &b.Tables[i]; {
		case len(t.Slots) > 0:
			return int(t.Slots[b.QStart[s]]) / (each * lim.PageSize)
		case len(t.States) > 0:
			return int(t.States[s]) / each
		}
	}
	return 0
}

// StepOf is Step of the sequences that one of the devices with sequences of their own has.
func (b *Batch) StepOf(lim Limits, rank int, s *graph.Step) {
	s.Seqs, s.Logits, s.Adapters = s.Seqs[:0], 0, s.Adapters[:0]
	next := 0
	for i := range b.KVLen {
		own := b.RankOf(lim, i) == rank
		if own {
			s.Seqs = append(s.Seqs, graph.Seq{New: int(b.QStart[i+1] - b.QStart[i]), Past: b.Past(i)})
		}
		for ; next < len(b.LogitsIndices) && b.LogitsIndices[next] < b.QStart[i+1]; next++ {
			if own {
				s.Logits++
			}
		}
		for _, a := range b.Adapters {
			if own && int(a.Seq) == i {
				s.Adapters = append(s.Adapters, graph.StepAdapter{Seq: len(s.Seqs) - 1, Skip: int(a.Skip), Slot: int(a.Slot), Rank: int(a.Rank), Bytes: int(a.Bytes)})
			}
		}
	}
}

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
		s.Seqs = append(s.Seqs, graph.Seq{New: int(b.QStart[i+1] - b.QStart[i]), Past: b.Past(i)})
	}
	s.Logits = len(b.LogitsIndices)
	s.Adapters = s.Adapters[:0]
	for _, a := range b.Adapters {
		s.Adapters = append(s.Adapters, graph.StepAdapter{Seq: int(a.Seq), Skip: int(a.Skip), Slot: int(a.Slot), Rank: int(a.Rank), Bytes: int(a.Bytes)})
	}
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
	case len(b.Positions) != t && len(b.Positions) != PositionAxes*t || len(b.Segments) != 0 && len(b.Segments) != t || len(b.QStart) != s+1 || len(b.RopeLen) != s || b.SeqPages > lim.SeqPages:
		return fmt.Errorf("backend: the slices of a batch of %d tokens and %d sequences do not fit together", t, s)
	case len(b.Tables) != 1 && len(b.Tables) != len(lim.Groups):
		return fmt.Errorf("backend: a batch with %d page tables; one, or one for each of %d cache groups, is needed", len(b.Tables), len(lim.Groups))
	case b.QStart[0] != 0 || int(b.QStart[s]) != t:
		return fmt.Errorf("backend: sequences cover rows %d to %d of %d", b.QStart[0], b.QStart[s], t)
	}
	for r, id := range b.Tokens {
		if int(id) < -b.FutureTokens || int(id) >= vocab {
			return fmt.Errorf("backend: row %d has token %d; the vocabulary has %d and the previous step samples %d", r, id, vocab, b.FutureTokens)
		}
	}
	for i := range b.KVLen {
		n, kv := int(b.QStart[i+1]-b.QStart[i]), int(b.KVLen[i])
		if n <= 0 || kv < n || kv > b.SeqPages*lim.PageSize {
			return fmt.Errorf("backend: sequence %d computes %d tokens of %d; its page table holds %d", i, n, kv, b.SeqPages*lim.PageSize)
		}
	}
	if err := b.checkTrees(); err != nil {
		return err
	}
	if err := b.checkEmbeddings(); err != nil {
		return err
	}
	for i := range b.Tables {
		if err := b.checkTable(lim, i); err != nil {
			return err
		}
	}
	for _, r := range b.LogitsIndices {
		if r < 0 || int(r) >= t {
			return fmt.Errorf("backend: logits of row %d are wanted; the batch has %d", r, t)
		}
	}
	return b.checkAdapters(lim)
}

// checkTable says what is wrong with the table of a cache group.
func (b *Batch) checkTable(lim Limits, group int) error {
	table, limit := &b.Tables[group], lim.GroupPages(group)
	if len(lim.Groups) > 0 && lim.Groups[group].Recurrent {
		return b.checkStates(table.States, group, limit)
	}
	if len(table.Slots) != len(b.Tokens) || len(table.Pages) != b.Seqs()*b.SeqPages {
		return fmt.Errorf("backend: table %d has %d slots and %d pages for a batch of %d tokens and %d sequences of %d pages", group, len(table.Slots), len(table.Pages), len(b.Tokens), b.Seqs(), b.SeqPages)
	}
	for r, slot := range table.Slots {
		if slot < 0 || int(slot) >= limit*lim.PageSize {
			return fmt.Errorf("backend: row %d writes slot %d of %d", r, slot, limit*lim.PageSize)
		}
	}
	for i, kv := range b.KVLen {
		used := (int(kv) + lim.PageSize - 1) / lim.PageSize
		if pages := table.Pages[i*b.SeqPages:][:used]; !below(pages, limit) {
			p := slices.IndexFunc(pages, func(id int32) bool { return uint(id) >= uint(limit) })
			return fmt.Errorf("backend: sequence %d has page %d as its page %d; the cache has %d", i, pages[p], p, limit)
		}
	}
	return nil
}

// checkStates says what is wrong with the states of a recurrent group: each sequence has one of its own.
func (b *Batch) checkStates(states []int32, group, limit int) error {
	if len(states) != b.Seqs() {
		return fmt.Errorf("backend: table %d has %d states for %d sequences", group, len(states), b.Seqs())
	}
	for i, id := range states {
		if id < 0 || int(id) >= limit {
			return fmt.Errorf("backend: sequence %d has state %d of group %d, which has %d", i, id, group, limit)
		}
		if slices.Contains(states[:i], id) {
			return fmt.Errorf("backend: sequence %d has state %d of group %d, which another sequence of the step has too", i, id, group)
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
