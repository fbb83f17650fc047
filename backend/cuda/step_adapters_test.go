package cuda

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/graph"
)

// TestTilesOfRound: each row of a sequence with an adapter is in one tile, of that adapter and of its own 16 rows; windows name their tiles, and no more tiles are of
// 128 or 256 rows than is said, nor of all rows than mostTiles allows.
func TestTilesOfRound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		b, slots := &backend.Batch{QStart: []int32{0}}, []int32(nil)
		seqs, adapters := 1+rnd.IntN(40), 1+rnd.IntN(20)
		for seq := range seqs {
			rows, slot := 1, int32(rnd.IntN(adapters))
			if rnd.IntN(4) == 0 {
				rows = 1 + rnd.IntN(90)
			}
			b.QStart = append(b.QStart, b.QStart[seq]+int32(rows))
			skip := rnd.IntN(rows)
			if rnd.IntN(5) > 0 {
				b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(seq), Slot: slot, Skip: int32(skip), Scale: float32(seq)})
			} else {
				skip = rows
			}
			for i := range rows {
				if i < skip {
					slots = append(slots, -1)
				} else {
					slots = append(slots, slot)
				}
			}
		}
		got := tilesOfRound(adaptedRounds(b, graph.Tokens, len(slots))[0], len(slots))
		seen := map[int32]bool{}
		n := len(got.tiles) / tileInts
		if n > mostTiles(len(slots), seqs)/2 {
			t.Fatalf("%d rows of %d sequences have %d tiles; %d are allowed for", len(slots), seqs, n, mostTiles(len(slots), seqs)/2)
		}
		if len(got.windows) != densesm90.Windows(len(slots))+1 || int(got.windows[len(got.windows)-1]) != n {
			t.Fatalf("%d rows have windows %v of %d tiles", len(slots), got.windows, n)
		}
		for w := range len(got.windows) - 1 {
			for tile := got.windows[w]; tile < got.windows[w+1]; tile++ {
				is := got.tiles[tileInts*tile:][:tileInts]
				for _, r := range got.rows[is[1] : is[1]+is[2]] {
					if int(r.row)/lora.TileRows != w || slots[r.row] != is[0] || r.slot != is[0] || seen[r.row] {
						t.Fatalf("row %d of slot %d is in tile %d, of window %d and slot %d (there before: %v)", r.row, slots[r.row], tile, w, is[0], seen[r.row])
					}
					seen[r.row] = true
				}
			}
		}
		for row, slot := range slots {
			if seen[int32(row)] != (slot >= 0) {
				t.Fatalf("row %d of slot %d is in a tile: %v", row, slot, seen[int32(row)])
			}
		}
		for _, rows := range []int{16, 32, 64, 128, 256} {
			for w := 0; w+rows/16 < len(got.windows); w += rows / 16 {
				if n := int(got.windows[w+rows/16] - got.windows[w]); n > got.most(max(128, rows)) {
					t.Fatalf("%d rows have %d tiles, and %d are said", rows, n, got.most(max(128, rows)))
				}
			}
		}
	}
}

// TestRecordedAdapters: a recorded step has room for the tiles of its rows of tokens and of logits, and says as many as its shape.
func TestRecordedAdapters(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 8))
	for range 100 {
		seqs := 1 + rnd.IntN(300)
		b := &backend.Batch{QStart: []int32{0}}
		for seq := range seqs {
			b.QStart, b.KVLen, b.Tokens = append(b.QStart, int32(seq+1)), append(b.KVLen, 1), append(b.Tokens, 0)
			if rnd.IntN(3) > 0 {
				b.LogitsIndices = append(b.LogitsIndices, int32(seq))
			}
			b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(seq), Slot: int32(seq * 100 / 300), Scale: 1, Rank: int32(8 + seq%20)})
		}
		sh := shape{tokens: seqs, seqs: seqs, logits: seqs, recorded: true, decodeAdapters: decodeAdaptersOf(b, seqs)}
		for _, kind := range []graph.Rows{graph.Tokens, graph.Logits} {
			need := tilesOfRound(adaptedRounds(b, kind, seqs)[0], seqs)
			if n := len(need.tiles) / tileInts; need.most(128) > sh.most.Of128 || need.most(256) > sh.most.Of256 || n > sh.decodeAdapters.tiles {
				t.Fatalf("%s rows need %d tiles, %d of 128 rows and %d of 256, and a step of %d sequences has %+v", kind, n, need.most(128), need.most(256), seqs, sh.decodeAdapters)
			}
			w := writer{host: make([]byte, 1<<16), base: driver.Ptr(1 << 20)}
			if got := packAdapters(&w, b, kind, sh, seqs); got.own.Most != sh.most || got.rounds[0].tiles != sh.decodeAdapters.tiles || got.passes != sh.passes {
				t.Fatalf("a launch for %s has %+v of %d tiles, and the shape %+v", kind, got.own.Most, got.rounds[0].tiles, sh.decodeAdapters)
			}
		}
	}
}

// TestAdaptedRounds: a row is in the first round with the first adapter that acts on it, though another comes before it on its sequence's other rows.
func TestAdaptedRounds(t *testing.T) {
	b := &backend.Batch{QStart: []int32{0, 4, 6}, Adapters: []backend.SeqAdapter{{Seq: 0, Slot: 1, Nth: 1}, {Seq: 1, Slot: 1, Nth: 1}, {Seq: 0, Slot: 2, Skip: 2}}}
	want := [][]adaptedRow{{{2, 2, 0}, {3, 2, 0}, {0, 1, 0}, {1, 1, 0}, {4, 1, 0}, {5, 1, 0}}, {{2, 1, 0}, {3, 1, 0}}}
	if got := adaptedRounds(b, graph.Tokens, 6); !reflect.DeepEqual(got, want) {
		t.Errorf("rounds of %v; want %v", got, want)
	}
}
