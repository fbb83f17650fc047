package compile

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// TestZigzag: every token of a sequence has one device, where it lies behind those of the device that come before it; in every page each has as many, and of a whole page's queries sees each
// device as many keys as any other.
func TestZigzag(t *testing.T) {
	for _, z := range []zigzag{{2, 8}, {3, 8}, {4, 16}, {8, 8}} {
		pairs := make([]int, z.ranks)
		counts := make([]int, z.ranks)
		for token := range 3 * z.cycle() {
			for rank := range z.ranks {
				if z.count(rank, token) != counts[rank] {
					t.Fatalf("%+v: device %d has %d of the first %d tokens and count says %d", z, rank, counts[rank], token, z.count(rank, token))
				}
			}
			owner := z.owner(token)
			if slot := z.slot(owner, token); slot != counts[owner] {
				t.Fatalf("%+v: token %d is the %dth of device %d and lies at %d", z, token, counts[owner], owner, slot)
			}
			counts[owner]++
			pairs[owner] += token + 1
			if (token+1)%z.cycle() == 0 {
				for rank := range z.ranks {
					if counts[rank] != counts[0] || pairs[rank] != pairs[0] {
						t.Errorf("%+v: after %d tokens devices have %v keys, and their queries see %v", z, token+1, counts, pairs)
					}
				}
			}
		}
	}
}

// TestZigzagKeys: of the keys that a row sees the devices together have each once, in and out of token trees.
func TestZigzagKeys(t *testing.T) {
	z := zigzag{3, 8}
	for _, k := range []backend.Keys{{High: 100, Base: 100}, {Low: 37, High: 61, Base: 61}, {Low: 5, High: 90, Base: 70, Mask: 1<<19 | 0b1011011}, {Low: 40, High: 41, Base: 41}} {
		var seen []int
		for token := range 120 {
			owner := z.owner(token)
			if z.keys(owner, k).Sees(z.count(owner, token)) {
				seen = append(seen, token)
			}
		}
		var want []int
		for token := range 120 {
			if k.Sees(token) {
				want = append(want, token)
			}
		}
		if !slices.Equal(seen, want) {
			t.Errorf("of %+v devices see %v, and %v are right", k, seen, want)
		}
	}
}

// TestTake: a device's batch has its rows' tokens, positions on three axes, segments, embeddings and adapters, in sequences that have any of its rows.
func TestTake(t *testing.T) {
	b := &backend.Batch{
		Tokens: []int32{10, 11, 12, 13, 14, 15, 16}, Segments: []int32{0, 0, 1, 1, 0, 0, 1}, QStart: []int32{0, 4, 5, 7}, KVLen: []int32{4, 9, 7}, RopeLen: []int32{4, 9, 8},
		Positions:  []int32{0, 1, 2, 3, 8, 5, 6, 20, 21, 22, 23, 28, 25, 26, 40, 41, 42, 43, 48, 45, 46},
		Embeddings: []float32{1, 2, 3, 4, 5, 6}, EmbeddingRows: []int32{1, 3, 6}, SeqPages: 1, LogitsIndices: []int32{3, 4, 6},
		Adapters: []backend.SeqAdapter{{Seq: 0, Slot: 0, Skip: 2}, {Seq: 1, Slot: 1}, {Seq: 2, Slot: 1, Skip: 1}},
		Tables:   []backend.Table{{Slots: []int32{0, 1, 2, 3, 24, 21, 22}, Pages: []int32{0, 2, 1}}},
	}
	s := &sequence{Sequence: graph.Sequence{Ranks: 2, Rank: 1, Split: true}, zigzag: zigzag{2, 2}, rows: make([][]int32, 2)} // pages of 8 tokens: 0 1 | 2 3 | 4 5 | 6 7 are of 0, 1, 1, 0
	s.divide(b)
	l := &s.local
	if !slices.Equal(s.rows[0], []int32{0, 1, 4, 6}) || !slices.Equal(s.rows[1], []int32{2, 3, 5}) {
		t.Errorf("devices have the rows %v", s.rows)
	}
	for what, got := range map[string][2][]int32{
		"tokens": {l.Tokens, {12, 13, 15}}, "positions": {l.Positions, {2, 3, 5, 22, 23, 25, 42, 43, 45}}, "segments": {l.Segments, {1, 1, 0}}, "sequences": {l.QStart, {0, 2, 3}}, "lengths": {l.KVLen, {4, 7}},
		"lengths of texts": {l.RopeLen, {4, 8}}, "rows of embeddings": {l.EmbeddingRows, {1}}, "slots": {l.Tables[0].Slots, {0, 1, 11}},
	} {
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s are %v and should be %v", what, got[0], got[1])
		}
	}
	if !slices.Equal(l.Embeddings, []float32{3, 4}) || !slices.Equal(l.Adapters, []backend.SeqAdapter{{Seq: 0, Slot: 0}}) {
		t.Errorf("embeddings are %v, adapters %+v", l.Embeddings, l.Adapters)
	}
	b = &backend.Batch{Tokens: []int32{10}, Positions: []int32{0}, QStart: []int32{0, 1}, KVLen: []int32{1}, RopeLen: []int32{1}, SeqPages: 1, Tables: []backend.Table{{Slots: []int32{0}, Pages: []int32{0}}}}
	if s.divide(b); len(s.local.Tokens) != 0 || s.local.Seqs() != 0 {
		t.Errorf("a row of another device is %+v", s.local)
	}
}
