package cuda

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/graph"
)

// stepAdapters is the rows of a step that adapters change, in tiles of one adapter each.
type stepAdapters struct {
	lora.Tiles
	rounds   []round
	runs     densesm90.RunRows // of each sequence's first adapter
	rowSlots driver.Ptr        // [rows] int32: the slot of the row's first adapter, -1 without one
	places   driver.Ptr        // [rows] int32: tile × lora.TileRows + number in it of the row's first adapter, -1 without one; 0 where no row has any
}

// round is tiles that change different rows: those of each sequence's first adapter, then of its second, and so on.
type round struct{ first, tiles int }

// from is the tiles from one on. Their rows are counted from the first of all.
func (s *stepAdapters) from(tile int) lora.Tiles {
	t := s.Tiles
	t.Tiles += driver.Ptr(4 * tileInts * tile)
	return t
}

// tileInts is what a tile takes, in numbers of four bytes.
const tileInts = 4

// adapterInts bounds what the adapters of a step take, in numbers of four bytes.
func adapterInts(lim backend.Limits) int {
	if lim.Adapters == 0 {
		return 0
	}
	ofRun := func(rows int) int { whole := densesm90.WholeRows(rows); return rows + whole + whole/4 }
	return ((tileInts+2)*backend.MaxSeqAdapters+2)*(lim.Tokens+lim.Logits) + ofRun(lim.Tokens) + ofRun(lim.Logits)
}

// mostTiles bounds the tiles of a round with so many rows: one of each adapter is not full. Recorded steps have up to twice as many.
func mostTiles(rows, slots int) int { return 2 * min(rows, rows/lora.TileRows+slots+1) }

// decodeTiles is how many tiles, and runs of a tile of a product, a recorded step has, whose sequences have a row and an adapter each: those of its rows, rounded
// up so that there are few graphs.
func decodeTiles(b *backend.Batch) (tiles int, most densesm90.MostRuns) {
	n, rows := 0, 0
	slots := slices.Repeat([]int32{-1}, b.Seqs())
	for i, a := range b.Adapters {
		if i == 0 || a.Slot != b.Adapters[i-1].Slot {
			rows = 0
		}
		if rows%lora.TileRows == 0 {
			n++
		}
		rows++
		slots[a.Seq] = a.Slot
	}
	most = runsOf(slots).most
	if n := len(b.LogitsIndices); n > 0 && n < len(slots) {
		var wanted []int32
		for _, row := range b.LogitsIndices {
			wanted = append(wanted, slots[row])
		}
		logits := runsOf(wanted).most
		most = densesm90.MostRuns{Of128: max(most.Of128, logits.Of128), Of256: max(most.Of256, logits.Of256)}
	}
	return powerOfTwo(n), densesm90.MostRuns{Of128: bucket(most.Of128), Of256: bucket(most.Of256)}
}

// rowRuns is rows, whose slots are given, -1 without an adapter, in runs; see densesm90.RunRows.
type rowRuns struct {
	slots, runs, blocks []int32
	most                densesm90.MostRuns
}

func runsOf(rowSlots []int32) (r rowRuns) {
	whole := densesm90.WholeRows(len(rowSlots))
	r.runs = slices.Repeat([]int32{-1}, whole)
	r.blocks = make([]int32, whole/4)
	for row := range whole {
		if row%8 == 0 {
			r.blocks[row/4] = -1
		}
		if row < len(rowSlots) && rowSlots[row] >= 0 {
			if n := len(r.slots); n == 0 || r.slots[n-1] != rowSlots[row] {
				r.slots = append(r.slots, rowSlots[row])
			}
			r.runs[row] = int32(len(r.slots) - 1)
			if at := row / 8 * 2; r.blocks[at] < 0 {
				r.blocks[at] = r.runs[row]
			}
		}
		r.blocks[row/8*2+1] = int32(len(r.slots))
	}
	next := int32(len(r.slots))
	for at := len(r.blocks) - 2; at >= 0; at -= 2 {
		if r.blocks[at] < 0 {
			r.blocks[at] = next
		}
		next = r.blocks[at]
	}
	within := func(rows int) (most int) {
		for first := 0; first < whole; first += rows {
			most = max(most, int(r.blocks[(first+rows)/4-1]-r.blocks[first/4]))
		}
		return most
	}
	r.most = densesm90.MostRuns{Of128: within(128), Of256: within(256)}
	return r
}

// powerOfTwo is the least that is no less than n; 0 of 0.
func powerOfTwo(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}

// packAdapters lays out the adapters of values with at most so many rows. A recorded step has as many tiles as its shape says, of which some
// are empty.
func packAdapters(w *writer, b *backend.Batch, kind graph.Rows, sh shape, most int) stepAdapters {
	var s stepAdapters
	if len(b.Adapters) == 0 || most == 0 {
		return s
	}
	var tiles, rows, scales []int32
	places := slices.Repeat([]int32{-1}, most)
	rowSlots := slices.Clone(places)
	last := int32(0)
	for _, a := range b.Adapters {
		last = max(last, a.Nth)
	}
	for nth := int32(0); nth <= last; nth++ {
		first := len(tiles) / tileInts
		open, slot := 0, int32(-1) // the tile that takes further rows
		for _, a := range b.Adapters {
			if a.Nth != nth {
				continue
			}
			from, to := b.AdapterRows(a, kind)
			for r := from; r < to; r++ {
				if slot != a.Slot || tiles[open+2] == lora.TileRows {
					open, slot = len(tiles), a.Slot
					tiles = append(tiles, a.Slot, int32(len(rows)), 0, 0)
				}
				if nth == 0 {
					places[r], rowSlots[r] = int32(open/tileInts*lora.TileRows)+tiles[open+2], a.Slot
				}
				tiles[open+2]++
				rows, scales = append(rows, int32(r)), append(scales, int32(math.Float32bits(a.Scale)))
			}
		}
		if n := len(tiles)/tileInts - first; n > 0 {
			s.rounds = append(s.rounds, round{first, n})
		}
	}
	room, n := len(rows), len(tiles)/tileInts
	if sh.recorded {
		room, n = most, sh.adapterTiles
		s.rounds = []round{{0, n}}
	}
	dst, p := w.array(tileInts * n)
	clear(dst)
	for i, x := range tiles {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(x))
	}
	s.Tiles.Tiles, s.Rows, s.Scales, s.places = p, w.ints(room, rows), w.ints(room, scales), w.ints(most, places)
	s.rowSlots = w.ints(most, rowSlots)
	runs := runsOf(rowSlots)
	s.runs = densesm90.RunRows{Slots: w.ints(most, runs.slots), Runs: w.ints(len(runs.runs), runs.runs), Blocks: w.ints(len(runs.blocks), runs.blocks), Most: runs.most}
	if sh.recorded {
		s.runs.Most = sh.adapterRuns
	}
	return s
}

// combines reports whether a sequence of the batch has several adapters.
func combines(b *backend.Batch) bool {
	for _, a := range b.Adapters {
		if a.Nth > 0 {
			return true
		}
	}
	return false
}
