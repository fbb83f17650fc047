package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/graph"
)

// TestRuns: tiles of any width find the runs of their rows, each once and in order, and no more of them than there are said to be.
func TestRuns(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		rows, adapters := make([]int32, 1+rnd.IntN(700)), 1+rnd.IntN(40)
		for i := range rows {
			if rows[i] = int32(rnd.IntN(adapters)); rnd.IntN(5) == 0 {
				rows[i] = -1
			}
		}
		if rnd.IntN(2) == 0 {
			slices.Sort(rows)
		}
		r := runsOf(rows)
		if len(r.runs) != densesm90.WholeRows(len(rows)) || len(r.blocks) != len(r.runs)/4 {
			t.Fatalf("%d rows have %d runs and %d numbers of blocks", len(rows), len(r.runs), len(r.blocks))
		}
		for row, run := range r.runs {
			slot := int32(-1)
			if run >= 0 {
				slot = r.slots[run]
			}
			if row < len(rows) && slot != rows[row] || row >= len(rows) && run >= 0 {
				t.Fatalf("row %d of %v is of slot %d", row, rows, slot)
			}
		}
		for _, width := range []int{8, 16, 32, 64, 128, 256} {
			for first := 0; first < len(r.runs); first += width {
				var want []int32
				for _, run := range r.runs[first : first+width] {
					if run >= 0 && !slices.Contains(want, run) {
						want = append(want, run)
					}
				}
				from, to := r.blocks[first/4], r.blocks[(first+width)/4-1]
				if len(want) > 0 && (!slices.IsSorted(want) || want[0] != from || want[len(want)-1] != to-1 || len(want) != int(to-from)) {
					t.Fatalf("rows %d to %d of %v have the runs %v, and %d to %d are said", first, first+width, rows, want, from, to)
				}
				if most := r.most.Of128; width <= 128 && int(to-from) > most || int(to-from) > r.most.Of256 {
					t.Fatalf("rows %d to %d of %v have %d runs, and %+v is said", first, first+width, rows, to-from, r.most)
				}
			}
		}
	}
}

// TestRecordedRuns: a recorded step has room for the runs of its rows of tokens and of logits, whichever rows those are of.
func TestRecordedRuns(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 8))
	for range 100 {
		seqs := 1 + rnd.IntN(300)
		b := &backend.Batch{QStart: []int32{0}}
		for seq := range seqs {
			b.QStart = append(b.QStart, int32(seq+1))
			b.KVLen = append(b.KVLen, 1)
			if b.Tokens = append(b.Tokens, 0); rnd.IntN(3) > 0 {
				b.LogitsIndices = append(b.LogitsIndices, int32(seq))
			}
			b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(seq), Slot: int32(seq * 100 / 300), Scale: 1})
		}
		tiles, most := decodeTiles(b)
		sh := shape{tokens: seqs, seqs: seqs, logits: seqs, recorded: true, adapterTiles: tiles, adapterRuns: most}
		for _, kind := range []graph.Rows{graph.Tokens, graph.Logits} {
			slots := slices.Repeat([]int32{-1}, seqs)
			for _, a := range b.Adapters {
				for from, to := b.AdapterRows(a, kind); from < to; from++ {
					slots[from] = a.Slot
				}
			}
			if need := runsOf(slots).most; need.Of128 > most.Of128 || need.Of256 > most.Of256 {
				t.Fatalf("%s rows need %+v, and a step of %d sequences has %+v", kind, need, seqs, most)
			}
			w := writer{host: make([]byte, 1<<16), base: driver.Ptr(1 << 20)}
			if got := packAdapters(&w, b, kind, sh, seqs).runs.Most; got != most {
				t.Fatalf("a launch for %s has %+v, and the shape %+v", kind, got, most)
			}
		}
	}
}
