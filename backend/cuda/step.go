package cuda

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	prefillsm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/attention/prefill_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/simt"
	"github.com/ridge-llm/ridge/graph"
)

// shape is what a step's launches depend on beside the numbers in device memory: two steps of one shape are the same
// recorded graph. Rows beyond the true counts are computed from whatever lies there, or skipped, and never looked at.
type shape struct {
	tokens, seqs, logits int
	seqPages             int // row length of the page tables
	tables               int // page tables: one of each cache group, or one of all
	tiles                int // of prefill attention
	decodes              int // sequences of one new token; 0 or all of seqs
	trees                int // sequences with a token tree
	axes                 int // of positions
	decodeAdapters           // of a recorded step
	recorded             bool
}

// step is one step being launched: its shape, and where its data lies on the device.
type step struct {
	shape
	kernels.Step            // without slots and pages, which of has
	ids          driver.Ptr // [T] int32, tokens: what an embedding looks up, as are positions and segments
	segments     driver.Ptr // [T] int32; see backend.Batch
	slots        driver.Ptr // [tables][T] int32
	pages        driver.Ptr // [tables][S × seqPages] int32
	treeLen      driver.Ptr // [S] int32; 0 without token trees
	ancestors    driver.Ptr // [T] uint64; 0 without token trees
	seen         driver.Ptr // [T] of simt.SeenInts int32; 0 where which keys rows see follows from the rest
	given        []float32  // [rows, hidden] embeddings
	givenRows    []int32    // of the step
	buffer       *stepBuffer
	rates        []driver.Ptr // of each rotation whose frequencies vary, [S × pairs] float32
	prompts      []prompt
	first        []int32         // row of each device that divides the rows, with the end of the last's behind; nil: they are not divided
	adapters     [2]stepAdapters // of token rows and of logit rows: by graph.Rows
	cleared      *stepAdapters   // for whose rows planes have been cleared; nil: for none
}

// prompt is a sequence of a step with several new tokens: which of the step's, its tiles of attention, and its keys.
type prompt struct{ seq, tiles, length int }

// of is the step for launches on a cache: with the slots and pages of its group.
func (s *step) of(c *graph.Cache) kernels.Step {
	view, group := s.Step, min(c.Group, s.tables-1)
	view.Slots = s.slots + driver.Ptr(group*arrayBytes(s.tokens))
	view.Pages = s.pages + driver.Ptr(group*arrayBytes(s.seqs*s.seqPages))
	return view
}

// rows is how many rows launches compute for a value of this kind.
func (s *step) rows(r graph.Rows) int {
	if r == graph.Logits {
		return s.logits
	}
	return s.tokens
}

// longestPrompt is the most keys that a sequence with several new tokens has.
func (s *step) longestPrompt() (most int) {
	for _, p := range s.prompts {
		most = max(most, p.length)
	}
	return most
}

// tilesOf is how many tiles of attention a prompt of n new tokens makes.
func tilesOf(n int) int { return (n + prefillsm90.TileRows - 1) / prefillsm90.TileRows }

// shapeOf is the shape of a batch as it is.
func shapeOf(b *backend.Batch, lim backend.Limits) shape {
	s := shape{tokens: len(b.Tokens), seqs: b.Seqs(), logits: len(b.LogitsIndices), seqPages: 1, tables: len(b.Tables), axes: 1}
	if len(b.Positions) > len(b.Tokens) {
		s.axes = backend.PositionAxes
	}
	for i, kv := range b.KVLen {
		s.seqPages = max(s.seqPages, (int(kv)+lim.PageSize-1)/lim.PageSize)
		switch n := int(b.QStart[i+1] - b.QStart[i]); {
		case b.Tree(i) > 0:
			s.trees++
		case n > 1:
			s.tiles += tilesOf(n)
		default:
			s.decodes++
		}
	}
	s.seqPages = min(1<<bits.Len(uint(s.seqPages-1)), lim.SeqPages)
	return s
}

// rounded is the shape of a batch of decoding, rounded up to its bucket; other batches are launched as they are.
func (s shape) rounded(b *backend.Batch, lim backend.Limits) shape {
	if s.tiles == 0 && s.trees == 0 && s.axes == 1 && len(b.EmbeddingRows) == 0 && !combines(b) && s.tokens == s.seqs && s.tokens <= maxRecorded {
		s.recorded = true
		s.tokens = min(bucket(s.tokens), lim.Tokens, lim.Seqs)
		s.seqs, s.decodes = s.tokens, s.tokens
		if s.logits > 0 {
			s.logits = min(s.tokens, lim.Logits)
		}
		s.decodeAdapters = decodeAdaptersOf(b, s.tokens)
	}
	return s
}

// maxRecorded is the most sequences of a decoding step that is recorded as a graph.
const maxRecorded = 512

// bucket rounds up so that there are few graphs and little waste: exact to 8, then an eighth at most.
func bucket(n int) int {
	if n <= 8 {
		return n
	}
	unit := 1 << max(bits.Len(uint(n-1))-4, 0)
	return (n + unit - 1) / unit * unit
}

// writer lays arrays of 32-bit numbers one behind the other, in host memory and so, at the same places, on the device.
type writer struct {
	host []byte
	base driver.Ptr
	used int
}

// arrayBytes is what an array of n numbers takes.
func arrayBytes(n int) int { return (4*n + 15) / 16 * 16 }

// array makes room for n numbers, 16-byte aligned, and returns it with its device address.
func (w *writer) array(n int) ([]byte, driver.Ptr) {
	from := w.used
	w.used += arrayBytes(n)
	return w.host[from : from+4*n], w.base + driver.Ptr(from)
}

func (w *writer) ints(n int, from []int32) driver.Ptr {
	dst, p := w.array(n)
	for i, x := range from {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(x))
	}
	return p
}

func (w *writer) longs(from []uint64) driver.Ptr {
	dst, p := w.array(2 * len(from))
	for i, x := range from {
		binary.LittleEndian.PutUint64(dst[8*i:], x)
	}
	return p
}

// seen lays out which keys rows see; those beyond have none.
func (w *writer) seen(n int, keys []backend.Keys) driver.Ptr {
	dst, p := w.array(simt.SeenInts * n)
	clear(dst)
	for i, k := range keys {
		row := dst[4*simt.SeenInts*i:]
		for j, x := range []int{k.Low, k.High, k.Base} {
			binary.LittleEndian.PutUint32(row[4*j:], uint32(int32(x)))
		}
		binary.LittleEndian.PutUint64(row[16:], k.Mask)
	}
	return p
}

// stepBytes bounds what a step's data takes.
func stepBytes(lim backend.Limits, pairs int) int {
	const arrays, ofTable, pad = 26, 2, 16 // those of pack but the rates, whose padding is in pairs
	tables := max(1, len(lim.Groups))
	ints := kernels.Counts + (5+backend.PositionAxes+simt.SeenInts)*lim.Tokens + 3*lim.Seqs + 1 + tables*(lim.Tokens+lim.Seqs*lim.SeqPages) + lim.Logits + 2*(lim.Tokens/prefillsm90.TileRows+lim.Seqs) + lim.Seqs*pairs + adapterInts(lim)
	return 4*ints + (arrays+tables*ofTable)*pad
}

// pack lays a batch out for a shape.
func pack(w *writer, b *backend.Batch, sh shape, lim backend.Limits, varying []*graph.Rotation) step {
	s := step{shape: sh, given: b.Embeddings, givenRows: b.EmbeddingRows}
	s.Counts = w.ints(kernels.Counts, []int32{int32(len(b.Tokens)), int32(b.Seqs()), int32(len(b.LogitsIndices)), int32(len(b.Tokens))})
	s.ids = w.ints(sh.tokens, b.Tokens)
	s.Positions = w.ints(sh.axes*sh.tokens, b.Positions)
	clear(w.host[w.used:][:4*sh.tokens]) // where segments are not told, all tokens are of the first
	s.segments = w.ints(sh.tokens, b.Segments)
	rowSeq, p := w.array(sh.tokens)
	s.RowSeq = p
	s.QStart = w.ints(sh.seqs+1, b.QStart)
	s.KVLen = w.ints(sh.seqs, b.KVLen)
	s.LogitsIndices = w.ints(sh.logits, b.LogitsIndices)
	if sh.trees > 0 {
		s.treeLen, s.ancestors = w.ints(sh.seqs, b.TreeLen), w.longs(b.Ancestors)
	}
	if len(b.Seen) > 0 {
		s.seen = w.seen(sh.tokens, b.Seen)
	}
	tiles, p := w.array(2 * sh.tiles)
	s.Tiles = p
	packTables(w, &s, b, lim.PageSize)
	tile := 0
	for i, kv := range b.KVLen {
		from, to := b.QStart[i], b.QStart[i+1]
		for r := from; r < to; r++ {
			binary.LittleEndian.PutUint32(rowSeq[4*r:], uint32(i))
		}
		// The last tiles of a sequence see the most keys; they go first so that the longest work starts first.
		if n := int(to - from); n > 1 && b.Tree(i) == 0 {
			s.prompts = append(s.prompts, prompt{seq: i, tiles: tilesOf(n), length: int(kv)})
			for t := tilesOf(n) - 1; t >= 0; t-- {
				binary.LittleEndian.PutUint32(tiles[8*tile:], uint32(i))
				binary.LittleEndian.PutUint32(tiles[8*tile+4:], uint32(int(from)+t*prefillsm90.TileRows))
				tile++
			}
		}
	}
	for _, kind := range []graph.Rows{graph.Tokens, graph.Logits} {
		s.adapters[kind] = packAdapters(w, b, kind, sh, s.rows(kind))
	}
	for _, r := range varying {
		rates, p := w.array(sh.seqs * r.Dim / 2)
		s.rates = append(s.rates, p)
		for i, length := range b.RopeLen {
			perPosition, _ := r.Frequencies(int(length))
			for j, f := range perPosition {
				binary.LittleEndian.PutUint32(rates[4*(i*r.Dim/2+j):], math.Float32bits(f))
			}
		}
	}
	s.Step.SeqPages = int32(sh.seqPages)
	s.PageShift = int32(bits.Len(uint(lim.PageSize)) - 1)
	return s
}

// packTables lays the tables out: the slots of all cache groups one behind the other, then their pages; of a recurrent group the
// sequences' states.
func packTables(w *writer, s *step, b *backend.Batch, pageSize int) {
	for i := range b.Tables {
		p := w.ints(s.tokens, b.Tables[i].Slots)
		if i == 0 {
			s.slots = p
		}
	}
	for i := range b.Tables {
		pages, p := w.array(s.seqs * s.seqPages)
		if i == 0 {
			s.pages = p
		}
		for seq, id := range b.Tables[i].States { // in place of pages
			binary.LittleEndian.PutUint32(pages[4*seq:], uint32(id))
		}
		if len(b.Tables[i].States) > 0 {
			continue
		}
		if len(b.Tables[i].Pages) == 0 {
			continue // of rows that attend elsewhere
		}
		for seq, kv := range b.KVLen {
			used := min((int(kv)+pageSize-1)/pageSize, b.SeqPages, s.seqPages) // a batch of all rows may have pages of all devices together, which nobody attends to
			for j, id := range b.Tables[i].Pages[seq*b.SeqPages : seq*b.SeqPages+used] {
				binary.LittleEndian.PutUint32(pages[4*(seq*s.seqPages+j):], uint32(id))
			}
		}
	}
}
