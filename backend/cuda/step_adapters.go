package cuda

import (
	"cmp"
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

// stepAdapters is the rows of a step that adapters change, in tiles: rows of one adapter among 16 aligned ones.
type stepAdapters struct {
	lora.Tiles
	rounds   []round
	slots    driver.Ptr // [planes] int32: which slots the first round's rows have, one after the other; -1: none
	planes   int
	passes   int                // of the ranks of the first round's adapters
	own      densesm90.RowTiles // the first round's tiles
	rowSlots driver.Ptr         // [rows] int32: the slot of the row's first adapter, -1 without one
	places   driver.Ptr         // [rows] int32: tile × lora.TileRows + number in it of the row's first adapter, -1 without one; 0 where no row has any
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
	return ((tileInts+2)*backend.MaxSeqAdapters+4)*(lim.Tokens+lim.Logits) + densesm90.Windows(lim.Tokens) + densesm90.Windows(lim.Logits) + 2
}

// mostTiles bounds the tiles of a round with so many rows of so many sequences: the first and the last of each are not full. Recorded steps have up to twice
// as many.
func mostTiles(rows, seqs int) int { return 2 * min(rows, rows/lora.TileRows+2*seqs) }

// decodeAdapters is what of a recorded step's launches depends on its adapters: tiles and planes, those of aligned rows, and passes, of a step whose sequences have
// a row and an adapter each, rounded up so that there are few graphs.
type decodeAdapters struct {
	tiles, planes, passes int
	most                  densesm90.MostTiles
}

func decodeAdaptersOf(b *backend.Batch, bound int) (d decodeAdapters) {
	if len(b.Adapters) == 0 {
		return d
	}
	for i, a := range b.Adapters {
		if i == 0 || a.Slot != b.Adapters[i-1].Slot {
			d.planes++
		}
	}
	for _, kind := range []graph.Rows{graph.Tokens, graph.Logits} {
		t := tilesOfRound(adaptedRounds(b, kind, bound)[0], bound)
		d.tiles = max(d.tiles, len(t.tiles)/tileInts)
		d.most = densesm90.MostTiles{Of128: max(d.most.Of128, t.most(128)), Of256: max(d.most.Of256, t.most(256))}
	}
	d.tiles, d.planes, d.passes = powerOfTwo(d.tiles), powerOfTwo(d.planes), passesOf(b)
	d.most = densesm90.MostTiles{Of128: bucket(d.most.Of128), Of256: bucket(d.most.Of256)}
	return d
}

// passesOf is how many passes of 16 ranks the adapter of a batch with most of them has.
func passesOf(b *backend.Batch) int {
	rank := int32(1)
	for _, a := range b.Adapters {
		rank = max(rank, a.Rank)
	}
	return (int(rank) + lora.PassRanks - 1) / lora.PassRanks
}

// powerOfTwo is the least that is no less than n; 0 of 0.
func powerOfTwo(n int) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}

// adaptedRow is a row with its adapter.
type adaptedRow struct {
	row, slot int32
	scale     float32
}

// roundTiles is the tiles of a round, in order of their windows of 16 rows.
type roundTiles struct {
	tiles   []int32 // of each its slot, first row among rows, and how many; the fourth number is open
	rows    []adaptedRow
	windows []int32 // the first tile of each window, and how many tiles there are
}

// adaptedRounds is the rows of each round: a row is in the first with the first of its sequence's adapters that acts on it, and so on.
func adaptedRounds(b *backend.Batch, kind graph.Rows, rows int) [][]adaptedRow {
	rounds, of := [][]adaptedRow{nil}, make([]uint8, rows) // of: rounds that a row is in so far
	for nth := range int32(backend.MaxSeqAdapters) {
		for _, a := range b.Adapters {
			if a.Nth != nth {
				continue
			}
			from, to := b.AdapterRows(a, kind)
			for r := from; r < to; r++ {
				if int(of[r]) == len(rounds) {
					rounds = append(rounds, nil)
				}
				rounds[of[r]] = append(rounds[of[r]], adaptedRow{int32(r), a.Slot, a.Scale})
				of[r]++
			}
		}
	}
	return rounds
}

// tilesOfRound is the tiles of a round, of values with so many rows. It takes the round's memory.
func tilesOfRound(round []adaptedRow, rows int) roundTiles {
	t := roundTiles{rows: round}
	slices.SortFunc(t.rows, func(x, y adaptedRow) int {
		return cmp.Or(cmp.Compare(x.row/lora.TileRows, y.row/lora.TileRows), cmp.Compare(x.slot, y.slot), cmp.Compare(x.row, y.row))
	})
	t.windows = make([]int32, densesm90.Windows(rows)+1)
	window := int32(-1)
	for i, r := range t.rows {
		if last := len(t.tiles) - tileInts; last < 0 || r.row/lora.TileRows != window || r.slot != t.tiles[last] {
			t.tiles = append(t.tiles, r.slot, int32(i), 0, 0)
			t.windows[r.row/lora.TileRows+1]++
		}
		window = r.row / lora.TileRows
		t.tiles[len(t.tiles)-2]++
	}
	for i := 1; i < len(t.windows); i++ {
		t.windows[i] += t.windows[i-1]
	}
	return t
}

// most is the most tiles of so many aligned rows.
func (t *roundTiles) most(rows int) (n int) {
	each := rows / lora.TileRows
	for i := 0; i+each < len(t.windows); i += each {
		n = max(n, int(t.windows[i+each]-t.windows[i]))
	}
	return n
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
	var own roundTiles
	for nth, has := range adaptedRounds(b, kind, most) {
		t := tilesOfRound(has, most)
		if nth == 0 {
			own = t
		}
		first := len(tiles) / tileInts
		for at := 0; at < len(t.tiles); at += tileInts {
			slot, n := t.tiles[at], t.tiles[at+2]
			plane := 0
			if nth == 0 {
				if plane = slices.Index(slots, slot); plane < 0 {
					plane, slots = len(slots), append(slots, slot)
				}
			}
			for i, r := range t.rows[t.tiles[at+1]:][:n] {
				if nth == 0 {
					places[r.row], rowSlots[r.row] = int32(len(tiles)/tileInts*lora.TileRows+i), slot
				}
				scales = append(scales, int32(math.Float32bits(r.scale)))
			}
			tiles = append(tiles, slot, int32(len(rows)), n, int32(plane))
			for _, r := range t.rows[t.tiles[at+1]:][:n] {
				rows = append(rows, r.row)
			}
		}
		if n := len(tiles)/tileInts - first; n > 0 {
			s.rounds = append(s.rounds, round{first, n})
		}
	}
	room, n := len(rows), len(tiles)/tileInts
	s.passes, s.own.Most = passesOf(b), densesm90.MostTiles{Of128: own.most(128), Of256: own.most(256)}
	if sh.recorded {
		room, n = most, sh.decodeAdapters.tiles
		s.rounds, s.own.Most = []round{{0, n}}, sh.decodeAdapters.most
		slots = append(slots, slices.Repeat([]int32{-1}, sh.decodeAdapters.planes-len(slots))...)
	}
	dst, p := w.array(tileInts * n)
	clear(dst)
	for i, x := range tiles {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(x))
	}
	s.Tiles.Tiles, s.Rows, s.Scales, s.places = p, w.ints(room, rows), w.ints(room, scales), w.ints(most, places)
	s.rowSlots = w.ints(most, rowSlots)
	s.slots, s.planes = w.ints(len(slots), slots), len(slots)
	s.own.Tiles, s.own.Windows = p, w.ints(len(own.windows), own.windows)
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
