package backend

import (
	"slices"
	"strings"
	"testing"
)

// TestBatchCheckFindsPages: an id outside of the cache is found wherever it stands in a table, and named; what is behind the table's end does not matter.
func TestBatchCheckFindsPages(t *testing.T) {
	const most, size = 9, 4
	lim := Limits{Tokens: 8, Seqs: 2, Logits: 2, PageSize: size, SeqPages: 8, Pages: most}
	for used := 1; used <= 7; used++ {
		b := &Batch{Tokens: []int32{1}, Positions: []int32{0}, QStart: []int32{0, 1}, KVLen: []int32{int32(used * size)}, RopeLen: []int32{0}, SeqPages: 8}
		pages := []int32{8, 0, 3, 8, 7, 1, 2, -5}
		b.Tables = []Table{{Slots: []int32{0}, Pages: pages}}
		if err := b.Check(lim, 10); err != nil {
			t.Fatalf("%d pages: %v", used, err)
		}
		for at := range used {
			for _, id := range []int32{-1, most, 1<<31 - 1, -1 << 31} {
				right := pages[at]
				pages[at] = id
				if err := b.Check(lim, 10); err == nil || !strings.Contains(err.Error(), "as its page "+string(rune('0'+at))) {
					t.Errorf("page %d of %d is %d: %v", at, used, id, err)
				}
				pages[at] = right
			}
		}
	}
}

// TestBatchCheckTables: every cache group has a table of its own, with ids that its own caches have, or one table serves all.
func TestBatchCheckTables(t *testing.T) {
	lim := Limits{Tokens: 8, Seqs: 2, Logits: 2, PageSize: 4, SeqPages: 2, Pages: 9, Groups: []GroupLimits{{Pages: 9}, {Pages: 3}}}
	whole := Table{Slots: []int32{33}, Pages: []int32{8, 8}}
	for what, c := range map[string]struct {
		tables []Table
		want   string
	}{
		"one of each group":    {[]Table{whole, {Slots: []int32{9}, Pages: []int32{2, 2}}}, ""},
		"one of all":           {[]Table{whole}, ""},
		"none":                 {nil, "0 page tables"},
		"too many":             {[]Table{whole, whole, whole}, "3 page tables"},
		"a page of the other":  {[]Table{whole, {Slots: []int32{9}, Pages: []int32{2, 8}}}, "page 8 as its page 1; the cache has 3"},
		"a slot of the other":  {[]Table{whole, {Slots: []int32{33}, Pages: []int32{2, 2}}}, "slot 33 of 12"},
		"a table without rows": {[]Table{whole, {Pages: []int32{2, 2}}}, "0 slots"},
	} {
		b := &Batch{Tokens: []int32{1}, Positions: []int32{0}, QStart: []int32{0, 1}, KVLen: []int32{6}, RopeLen: []int32{0}, SeqPages: 2, Tables: c.tables}
		if err := b.Check(lim, 10); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; it should say %q", what, err, c.want)
		}
	}
}

// TestBatchCheckTrees: every row of a token tree descends from the first, has its parent's ancestors, and itself.
func TestBatchCheckTrees(t *testing.T) {
	lim := Limits{Tokens: 8, Seqs: 1, Logits: 4, PageSize: 4, SeqPages: 2, Pages: 2}
	for what, c := range map[string]struct {
		length    int32
		ancestors []uint64
		want      string
	}{
		"two branches":       {4, []uint64{0, 1, 3, 5, 13}, ""},
		"a part of the rows": {2, []uint64{0, 0, 0, 1, 3}, ""},
		"not itself":         {4, []uint64{0, 1, 1, 5, 13}, "row 1 of the token tree has ancestors 0x1"},
		"a later row":        {4, []uint64{0, 1, 7, 5, 13}, "row 1 of the token tree"},
		"not its parent's":   {4, []uint64{0, 1, 3, 5, 10}, "row 3 of the token tree has ancestors 0xa"},
		"two roots":          {4, []uint64{0, 1, 2, 5, 13}, "row 1 of the token tree does not descend from row 0"},
		"too long":           {6, []uint64{0, 1, 3, 5, 13}, "a token tree of 6 of its 5 rows"},
		"too few ancestors":  {4, []uint64{0, 1, 3, 5}, "ancestors of 4 rows"},
	} {
		b := &Batch{
			Tokens: make([]int32, 5), Positions: make([]int32, 5), QStart: []int32{0, 5}, KVLen: []int32{6}, RopeLen: []int32{0}, SeqPages: 2,
			TreeLen: []int32{c.length}, Ancestors: c.ancestors, Tables: []Table{{Slots: make([]int32, 5), Pages: []int32{0, 1}}},
		}
		if err := b.Check(lim, 10); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; it should say %q", what, err, c.want)
		}
	}
}

// TestKeysOf: a row of a tree sees what its text has before it, as far as the window goes back from its depth.
func TestKeysOf(t *testing.T) {
	b := &Batch{QStart: []int32{0, 5}, KVLen: []int32{9}, TreeLen: []int32{4}, Ancestors: []uint64{0, 1, 3, 5, 13}}
	for _, c := range []struct {
		row, window int
		want        []int
	}{
		{0, 0, []int{0, 1, 2, 3, 4}}, {1, 0, []int{0, 1, 2, 3, 4, 5}}, {4, 0, []int{0, 1, 2, 3, 4, 5, 7, 8}},
		{2, 3, []int{4, 5, 6}}, {3, 3, []int{4, 5, 7}}, {4, 3, []int{5, 7, 8}}, {4, 2, []int{7, 8}}, {4, 1, []int{8}},
	} {
		var got []int
		for p := range 9 {
			if b.KeysOf(0, c.row, Mask{Window: c.window}).Sees(p) {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("row %d sees keys %v in a window of %d, want %v", c.row, got, c.window, c.want)
		}
	}
}
