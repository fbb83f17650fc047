package backend

import (
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
