package backend

import (
	"strings"
	"testing"
)

// TestBatchCheckFindsPages: an id outside of the cache is found wherever it stands in a table, and named; what is behind the table's end does not matter.
func TestBatchCheckFindsPages(t *testing.T) {
	const pages, size = 9, 4
	lim := Limits{Tokens: 8, Seqs: 2, Logits: 2, PageSize: size, SeqPages: 8, Pages: pages}
	for used := 1; used <= 7; used++ {
		b := &Batch{Tokens: []int32{1}, Positions: []int32{0}, Slots: []int32{0}, QStart: []int32{0, 1}, KVLen: []int32{int32(used * size)}, RopeLen: []int32{0}, SeqPages: 8}
		b.Pages = []int32{8, 0, 3, 8, 7, 1, 2, -5}
		if err := b.Check(lim, 10); err != nil {
			t.Fatalf("%d pages: %v", used, err)
		}
		for at := range used {
			for _, id := range []int32{-1, pages, 1<<31 - 1, -1 << 31} {
				right := b.Pages[at]
				b.Pages[at] = id
				if err := b.Check(lim, 10); err == nil || !strings.Contains(err.Error(), "as its page "+string(rune('0'+at))) {
					t.Errorf("page %d of %d is %d: %v", at, used, id, err)
				}
				b.Pages[at] = right
			}
		}
	}
}
