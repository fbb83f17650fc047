package testkit

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
)

// Roll gives the batches of a model whose attention has a window tables as an engine makes them that keeps no more than the windows
// need: pages that have fallen out of a sequence's window are written anew by the next token that needs one, of whichever sequence. In
// their place the tables have the first page that the sequence holds. The results must be the same.
func Roll(batches []*backend.Batch, lim backend.Limits, window int) {
	free := make([]int32, lim.Pages)
	for i := range free {
		free[i] = int32(lim.Pages - 1 - i)
	}
	held := map[int32][]int32{} // of each sequence, which is known by its first page: its pages in order, -1 where they are given back
	for _, b := range batches {
		table := b.Table(0)
		slots := table.Slots[:0]
		firsts := make([]int, b.Seqs())
		for s := range b.Seqs() {
			firsts[s] = max(0, b.Past(s)-window+1) / lim.PageSize
			pages := held[table.Pages[s*b.SeqPages]]
			for i := range min(firsts[s], len(pages)) {
				if pages[i] >= 0 {
					free, pages[i] = append(free, pages[i]), -1
				}
			}
		}
		for s, first := range firsts {
			row := table.Pages[s*b.SeqPages : (s+1)*b.SeqPages]
			pages := held[row[0]]
			for len(pages)*lim.PageSize < int(b.KVLen[s]) {
				pages, free = append(pages, free[len(free)-1]), free[:len(free)-1]
			}
			held[row[0]] = pages
			for k := b.Past(s); k < int(b.KVLen[s]); k++ {
				slots = append(slots, pages[k/lim.PageSize]*int32(lim.PageSize)+int32(k%lim.PageSize))
			}
			copy(row, slices.Repeat([]int32{pages[first]}, len(row)))
			copy(row[first:], pages[first:])
		}
	}
}
