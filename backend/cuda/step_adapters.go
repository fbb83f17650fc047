package cuda

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/graph"
)

// stepAdapters is the rows of a step that adapters change, in tiles of one adapter each.
type stepAdapters struct {
	lora.Tiles
	rounds   []round
	slots    driver.Ptr // [planes] int32: which slots the first round's rows have, one after the other; -1: none
	planes   int
	rowSlots driver.Ptr // [rows] int32: the slot of the row's first adapter, -1 without one
	places   driver.Ptr // [rows] int32: tile × lora.TileRows + number in it of the row's first adapter, -1 without one; 0 where no row has any
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
	return ((tileInts+2)*backend.MaxSeqAdapters + 4) * (lim.Tokens + lim.Logits)
}

// mostTiles bounds the tiles of a round with so many rows: one of each adapter is not full. Recorded steps have up to twice as many.
func mostTiles(rows, slots int) int { return 2 * min(rows, rows/lora.TileRows+slots+1) }

// decodeTiles is how many tiles and planes a recorded step has, whose sequences have a row and an adapter each: those of its rows, rounded up to
// powers of two so that there are few graphs.
func decodeTiles(b *backend.Batch) (tiles, planes int) {
	n, slots, rows := 0, 0, 0
	for i, a := range b.Adapters {
		if i == 0 || a.Slot != b.Adapters[i-1].Slot {
			slots++
			rows = 0
		}
		if rows%lora.TileRows == 0 {
			n++
		}
		rows++
	}
	return powerOfTwo(n), powerOfTwo(slots)
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
	var tiles, rows, scales, slots []int32
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
					if nth == 0 && slot != a.Slot {
						slots = append(slots, a.Slot)
					}
					open, slot = len(tiles), a.Slot
					tiles = append(tiles, a.Slot, int32(len(rows)), 0, int32(len(slots)-1))
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
		slots = append(slots, slices.Repeat([]int32{-1}, sh.adapterPlanes-len(slots))...)
	}
	dst, p := w.array(tileInts * n)
	clear(dst)
	for i, x := range tiles {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(x))
	}
	s.Tiles.Tiles, s.Rows, s.Scales, s.places = p, w.ints(room, rows), w.ints(room, scales), w.ints(most, places)
	s.rowSlots = w.ints(most, rowSlots)
	s.slots, s.planes = w.ints(len(slots), slots), len(slots)
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
