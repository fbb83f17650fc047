package cpu

import (
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/attn"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// latentAttention is bound latent attention with its absorbed matrices. A sequence of few new tokens is computed so, in three passes. For one of many it takes less
// to make keys and values of its latents, head by head, and attend to those (see latentCost); a unit of work is a head of a sequence then.
type latentAttention struct {
	dev     *Device
	queries *headLinear
	attend  *attention
	values  *headLinear
	latentShape
	keysOf, valuesOf []*matrix // of each head: what makes keys [nope, rank] and values [value, rank] of a latent
	q, out           []float32
	zeros            []int32 // pages of a segment that is in place of any
	workers          []latentWorker
}

// latentShape is the sizes of a latent attention.
type latentShape struct{ heads, nope, rope, rank, value int }

// latentWorker is a worker's memory.
type latentWorker struct {
	long     []bool // of each sequence: keys and values are made of its latents
	tiles    []*attn.Tile
	expanded attn.Head // a segment of one head
	x        []float32 // [attn.Segment][rank] latents
	ropes    []float32 // [attn.Segment][rope]
	k, v     []float32 // [attn.Segment][nope], [value]
	row      []float32 // rank+rope, and a key
}

// longTiles is the most tiles of tileRows tokens that one head of a sequence has at a time: longer chunks make keys and values again.
const longTiles = 8

func shapeOfLatent(parts []*graph.Node) latentShape {
	k, v := parts[0].Weights[0], parts[2].Weights[0]
	return latentShape{parts[0].In[0].Axis.Count, k.In.Len(), parts[0].Op.(graph.HeadLinear).Rest, k.Out.Len(), v.Out.Len()}
}

// absorbed and expanded are what a sequence of n new tokens behind so many takes, in multiplications, with absorbed matrices and with keys and values of all heads.
func (s latentShape) absorbed(n, past int) float64 {
	return float64(s.heads) * (float64(n)*float64(s.rank)*float64(s.nope+s.value) + pairs(n, past)*float64(2*s.rank+s.rope))
}

func (s latentShape) expanded(n, past int) float64 {
	times := (n + longTiles*tileRows - 1) / (longTiles * tileRows)
	return float64(s.heads) * (float64(times)*float64(n+past)*float64(s.rank)*float64(s.nope+s.value) + pairs(n, past)*float64(s.nope+s.rope+s.value))
}

// pairs is how many keys n tokens behind so many attend to.
func pairs(n, past int) float64 { return float64(n)*float64(past) + float64(n)*float64(n+1)/2 }

// Floats of the parts of the scratch, in whole cache lines: what all workers share, and what each has.
func (s latentShape) sharedFloats(tokens int) (q, y int) {
	return (tokens*s.heads*(s.rank+s.rope) + 15) / 16 * 16, (tokens*s.heads*s.rank + 15) / 16 * 16
}

func (s latentShape) ownFloats() int {
	return (attn.Segment*(s.rank+2*s.rope+2*s.nope+2*s.value) + s.rank + 2*s.rope + s.nope + 31) / 16 * 16
}

func (d *Device) longTile(s latentShape) int {
	return (attn.TileFloats(d.tier, tileRows, s.nope+s.rope, s.value) + 15) / 16 * 16
}

func tilesOf(tokens int) int { return min((tokens+tileRows-1)/tileRows, longTiles) }

// latentScratch is a worker's part.
func (d *Device) latentScratch(n *graph.Node, lim backend.Limits) int64 {
	parts := graph.Parts(n)
	s, workers := shapeOfLatent(parts), int64(d.pool.N())
	q, y := s.sharedFloats(lim.Tokens)
	shared := (4*int64(q+y) + workers - 1) / workers
	heads := max(headLinearScratch(parts[0], lim), headLinearScratch(parts[2], lim))
	return (shared+heads+d.attentionScratch(parts[1], lim)+4*int64(s.ownFloats()+tilesOf(lim.Tokens)*d.longTile(s)))/64*64 + 2*64
}

func bindLatentAttention(d *Device, n *graph.Node, a backend.Args) (body, error) {
	parts := graph.Parts(n)
	s, workers := shapeOfLatent(parts), int64(d.pool.N())
	t := &latentAttention{dev: d, latentShape: s, q: floats(a.In[0]), out: floats(a.Out[0])}
	mem := a.Scratch
	take := func(bytes int64) backend.Buffer {
		part := mem.Slice(0, bytes)
		mem = mem.Slice(bytes, mem.Len-bytes)
		return part
	}
	q, y := s.sharedFloats(a.Limits.Tokens)
	queries, made := take(4*int64(q)), take(4*int64(y))
	heads := take(workers * max(headLinearScratch(parts[0], a.Limits), headLinearScratch(parts[2], a.Limits)))
	attending := take((workers*d.attentionScratch(parts[1], a.Limits) + 63) / 64 * 64)
	var err error
	if t.queries, err = newHeadLinear(d, parts[0], backend.Args{In: a.In[:1], Out: []backend.Buffer{queries}, Weights: a.Weights[:1], Scratch: heads, Limits: a.Limits}); err != nil {
		return nil, err
	}
	if t.attend, err = newAttention(d, parts[1], backend.Args{In: []backend.Buffer{queries, a.In[1]}, Out: []backend.Buffer{made}, Scratch: attending, Limits: a.Limits}); err != nil {
		return nil, err
	}
	if t.values, err = newHeadLinear(d, parts[2], backend.Args{In: []backend.Buffer{made}, Out: a.Out, Weights: a.Weights[1:], Scratch: heads, Limits: a.Limits}); err != nil {
		return nil, err
	}
	t.attend.skip = func(w *worker, seq int32) bool { return t.workers[w.id].long[seq] }
	if t.keysOf, err = d.expanding(a.Weights[0].(stack), true); err != nil {
		return nil, err
	}
	if t.valuesOf, err = d.expanding(a.Weights[1].(stack), false); err != nil {
		return nil, err
	}
	t.zeros = make([]int32, a.Limits.SeqPages*a.Limits.PageSize/attn.Segment+2)
	for range d.pool.all {
		t.workers = append(t.workers, t.worker(floats(take(4*int64(s.ownFloats()+tilesOf(a.Limits.Tokens)*d.longTile(s)))), a.Limits))
	}
	return t.run, nil
}

// worker lays a worker's memory out.
func (t *latentAttention) worker(mem []float32, lim backend.Limits) (w latentWorker) {
	take := func(n int) []float32 {
		part := mem[:n:n]
		mem = mem[n:]
		return part
	}
	for range tilesOf(lim.Tokens) {
		w.tiles = append(w.tiles, attn.NewTile(t.dev.tier, take(t.dev.longTile(t.latentShape)), tileRows, t.nope+t.rope, t.value))
	}
	cache := &attn.Cache{Element: attn.F32, Heads: 1, KeySize: t.nope + t.rope, ValueSize: t.value, PageSize: attn.Segment}
	block := take(attn.Segment * (t.nope + t.rope + t.value))
	cache.Data = unsafe.Slice((*byte)(unsafe.Pointer(&block[0])), 4*len(block))
	w.expanded = t.attend.head
	w.expanded.Cache = cache
	w.x, w.ropes = take(attn.Segment*t.rank), take(attn.Segment*t.rope)
	w.k, w.v, w.row = take(attn.Segment*t.nope), take(attn.Segment*t.value), take(t.rank+2*t.rope+t.nope)
	w.long = make([]bool, lim.Seqs)
	return w
}

// expanding is the matrices that make keys (of those that bring queries into the space of latents, transposed) or values of latents, ready for products; those in block
// formats as F16.
func (d *Device) expanding(of stack, transposed bool) (all []*matrix, err error) {
	for _, one := range of {
		m := one.(*matrix)
		if transposed || m.Format.Block() > 1 {
			if m, err = d.floatMatrix(m, transposed); err != nil {
				return nil, err
			}
		}
		if err := d.preparePacked(m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// floatMatrix is a matrix as floats, or its transpose.
func (d *Device) floatMatrix(m *matrix, transposed bool) (*matrix, error) {
	x, rows, cols, format := m.Floats(), m.Rows, m.Cols, m.Format
	if format.Block() > 1 {
		format = quant.F16
	}
	if transposed {
		y := make([]float32, len(x))
		for r := range rows {
			for c := range cols {
				y[c*rows+r] = x[r*cols+c]
			}
		}
		x, rows, cols = y, cols, rows
	}
	data := make([]byte, int64(rows)*format.RowBytes(cols))
	if err := quant.Encode(format, data, x); err != nil {
		return nil, err
	}
	t, err := quant.NewTensor(format, rows, cols, data)
	return &matrix{Tensor: t}, err
}

// run computes a step.
func (t *latentAttention) run(w *worker, b *backend.Batch) {
	mine := &t.workers[w.id]
	long, all := 0, b.Seqs()
	for s := range all {
		n := int(b.QStart[s+1] - b.QStart[s])
		// A sequence that is split among workers, and results that must not depend on how a prompt is cut, keep to one way.
		mine.long[s] = !t.dev.deterministic && n > max(t.attend.split.shape.rows, attn.Block) && (len(b.TreeLen) == 0 || b.TreeLen[s] == 0) &&
			t.expanded(n, b.Past(s)) < t.absorbed(n, b.Past(s))
		if mine.long[s] {
			long++
		}
	}
	if long < all {
		t.each(b, mine.long, func(row, rows int) { t.queries.run(w, row, rows) })
		w.sync()
		t.attend.run(w, b)
		w.sync()
		t.each(b, mine.long, func(row, rows int) { t.values.run(w, row, rows) })
	}
	from, to := w.share(long*t.heads, 1)
	at := 0
	for s := range all {
		if !mine.long[s] {
			continue
		}
		for h := range t.heads {
			if i := at + h; from <= i && i < to {
				t.expand(w, b, s, h)
			}
		}
		at += t.heads
	}
}

// each calls f for the rows that lie together of sequences that are not long.
func (t *latentAttention) each(b *backend.Batch, long []bool, f func(row, rows int)) {
	for s := 0; s < b.Seqs(); s++ {
		first := b.QStart[s]
		for s < b.Seqs() && !long[s] {
			s++
		}
		if rows := b.QStart[s] - first; rows > 0 {
			f(int(first), int(rows))
		}
	}
}

// expand computes one head of a sequence: segment by segment keys and values are made of its latents, which all of its new tokens attend to.
func (t *latentAttention) expand(w *worker, b *backend.Batch, s, head int) {
	first, end := int(b.QStart[s]), int(b.QStart[s+1])
	for ; first < end; first += longTiles * tileRows {
		t.expandFor(w, b, s, head, first, min(first+longTiles*tileRows, end))
	}
}

// expandFor computes rows [first, end).
func (t *latentAttention) expandFor(w *worker, b *backend.Batch, s, head, first, end int) {
	mine, size := &t.workers[w.id], t.nope+t.rope
	tiles := mine.tiles[:(end-first+tileRows-1)/tileRows]
	last := 0
	for i, tile := range tiles {
		tile.Reset()
		for r := first + i*tileRows; r < min(first+(i+1)*tileRows, end); r++ {
			seen := b.KeysOf(s, r, backend.Mask{})
			tile.AddQueries(mine.expanded, t.q[(r*t.heads+head)*size:][:size], seen.Low, seen.High)
			last = max(last, seen.High)
		}
	}
	pages := b.Table(t.attend.group).Pages[s*b.SeqPages : (s+1)*b.SeqPages]
	for segment := 0; segment*attn.Segment < last; segment++ {
		t.make(w, mine, pages, head, segment*attn.Segment, min((segment+1)*attn.Segment, last))
		for _, tile := range tiles {
			tile.Segment(mine.expanded, t.zeros, 0, segment)
			tile.Merge(segment)
		}
	}
	for r := first; r < end; r++ {
		tiles[(r-first)/tileRows].Out((r-first)%tileRows, t.out[(r*t.heads+head)*t.value:][:t.value])
	}
}

// make makes a head's keys and values of the latents of keys [from, to), of one segment.
func (t *latentAttention) make(w *worker, mine *latentWorker, pages []int32, head, from, to int) {
	n, latent, key := to-from, mine.row[:t.rank+t.rope], mine.row[t.rank+t.rope:]
	for i := range n {
		t.attend.head.Cache.ReadLatent(t.dev.vec, latent, pages, from+i)
		copy(mine.x[i*t.rank:], latent[:t.rank])
		copy(mine.ropes[i*t.rope:], latent[t.rank:])
	}
	w.acts = gemm.FloatActs(mine.x, n, t.rank)
	gemm.Mul(t.dev.tier, mine.k, t.nope, t.keysOf[head].weights, 0, t.nope, &w.acts, 0, n, w.scratch)
	gemm.Mul(t.dev.tier, mine.v, t.value, t.valuesOf[head].weights, 0, t.value, &w.acts, 0, n, w.scratch)
	for i := range n {
		copy(key, mine.k[i*t.nope:][:t.nope])
		copy(key[t.nope:], mine.ropes[i*t.rope:][:t.rope])
		mine.expanded.Cache.Write(t.dev.vec, i, key[:t.nope+t.rope], mine.v[i*t.value:][:t.value], nil)
	}
}
