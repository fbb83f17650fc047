package cpu

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/attn"
	"github.com/ridge-llm/ridge/graph"
)

// topKeys is a bound choice of keys. A worker takes whole rows.
type topKeys struct {
	dev         *Device
	cache       *attn.Cache
	group       int
	heads, topK int
	q, w, out   []float32
	scratch     []byte
	each        int // bytes of a worker's scratch
}

// topKeysScratch is a worker's candidates, and a key.
func topKeysScratch(n *graph.Node, lim backend.Limits) int64 {
	return (8*int64(lim.SeqPages*lim.PageSize) + 4*int64(n.In[2].Cache.K.Len()) + 63) / 64 * 64
}

func bindTopKeys(d *Device, n *graph.Node, a backend.Args) (body, error) {
	c := n.In[2].Cache
	cache, err := cacheOf(c, a.In[2], a.Limits)
	if err != nil {
		return nil, err
	}
	t := &topKeys{
		dev: d, cache: cache, group: c.Group, heads: n.In[0].Axis.Count, topK: n.Op.(graph.TopKeys).TopK,
		q: floats(a.In[0]), w: floats(a.In[1]), out: floats(a.Out[0]), scratch: raw(a.Scratch), each: int(topKeysScratch(n, a.Limits)),
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.Tokens), 1)
		for r := from; r < to; r++ {
			t.choose(w, b, r)
		}
	}, nil
}

// choose finds the keys of one row. Which of equal scores are chosen depends on how many candidates there are, as upstream, where they are
// all of the sequence's keys up to the step's last; in deterministic runs, for which neighbours must make no difference, those that the row sees, as they come in its text.
func (t *topKeys) choose(w *worker, b *backend.Batch, r int) {
	s := sequenceOf(b, r)
	seen, size := b.KeysOf(s, r, backend.Mask{}), t.cache.KeySize
	n := int(b.KVLen[s])
	var moved [backend.MaxTree]int32
	last := moved[:0] // positions of the last candidates, where they lie apart
	if t.dev.deterministic {
		var line backend.Keys
		line, last = seen.Line(last)
		n = line.High
	}
	mem := t.scratch[w.id*t.each:][:t.each]
	key, candidates := as[float32](mem[:4*size]), as[backend.Scored](mem[4*size:][:8*n])
	q, weights := t.q[r*t.heads*size:][:t.heads*size], t.w[r*t.heads:][:t.heads]
	pages := b.Table(t.group).Pages[s*b.SeqPages : (s+1)*b.SeqPages]
	for i := range candidates {
		p := i
		if first := n - len(last); i >= first {
			p = int(last[i-first])
		}
		candidates[i] = backend.Scored{Score: float32(math.Inf(-1)), At: int32(p)}
		if n <= t.topK || !seen.Sees(p) { // all of them are chosen, or this one cannot be
			continue
		}
		t.cache.ReadLatent(t.dev.vec, key, pages, p)
		var score float32
		for h, by := range weights {
			score += by * max(0, t.dev.vec.Dot(q[h*size:][:size], key))
		}
		candidates[i].Score = score
	}
	backend.SelectTop(candidates, t.topK)
	out, found := t.out[r*t.topK:][:t.topK], 0
	for _, c := range candidates[:min(t.topK, n)] {
		if seen.Sees(int(c.At)) {
			out[found] = float32(c.At)
			found++
		}
	}
	slices.Sort(out[:found])
	for i := range out[found:] {
		out[found+i] = -1
	}
}

// sparseAttention is a bound attention to chosen keys. A worker takes whole rows, with all of their heads.
type sparseAttention struct {
	head           attn.Head
	group          int
	heads, most    int
	q, chosen, out []float32
	tiles          []*attn.Tile // each worker's
}

func (d *Device) sparseTileFloats(n *graph.Node) int {
	c := n.In[1].Cache
	return (attn.TileFloats(d.tier, n.In[0].Axis.Count, c.K.Size, c.V.Size) + 15) / 16 * 16
}

func (d *Device) sparseScratch(n *graph.Node, _ backend.Limits) int64 {
	return 4 * int64(d.sparseTileFloats(n))
}

func bindSparseAttention(d *Device, n *graph.Node, a backend.Args) (body, error) {
	c := n.In[1].Cache
	cache, err := cacheOf(c, a.In[1], a.Limits)
	if err != nil {
		return nil, err
	}
	t := &sparseAttention{
		head: attn.Head{Cache: cache, Scale: float32(n.Op.(graph.SparseAttention).Scale)}, group: c.Group,
		heads: n.In[0].Axis.Count, most: n.In[2].Axis.Len(), q: floats(a.In[0]), chosen: floats(a.In[2]), out: floats(a.Out[0]),
	}
	mem, each := floats(a.Scratch), d.sparseTileFloats(n)
	for i := range d.pool.all {
		t.tiles = append(t.tiles, attn.NewTile(d.tier, mem[i*each:(i+1)*each], t.heads, c.K.Size, c.V.Size))
	}
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.Tokens), 1)
		for r := from; r < to; r++ {
			t.attend(t.tiles[w.id], b, r)
		}
	}, nil
}

// attend computes one row: its chosen keys are as a sequence of their own.
func (t *sparseAttention) attend(tile *attn.Tile, b *backend.Batch, r int) {
	s := sequenceOf(b, r)
	keys := t.chosen[r*t.most:][:t.most]
	if end := slices.Index(keys, -1); end >= 0 {
		keys = keys[:end]
	}
	pages := b.Table(t.group).Pages[s*b.SeqPages : (s+1)*b.SeqPages]
	size, values := t.head.Cache.KeySize, t.head.Cache.ValueSize
	tile.Reset()
	tile.AddQueries(t.head, t.q[r*t.heads*size:][:t.heads*size], 0, len(keys))
	for segment := 0; segment*attn.Segment < len(keys); segment++ {
		tile.ChosenSegment(t.head, pages, keys, segment)
		tile.Merge(segment)
	}
	for h := range t.heads {
		tile.Out(h, t.out[(r*t.heads+h)*values:][:values])
	}
}
