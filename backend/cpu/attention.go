package cpu

import (
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/attn"
	"github.com/ridge-llm/ridge/graph"
)

// tileRows is the most rows of Q (query heads of tokens) that read a key head's key tile together: as many as hide the tile's
// conversion to float32, and few enough for the L2 cache.
const tileRows = 96

// workerTasks is how many tasks a worker should have in a step in which sequences are split.
const workerTasks = 16

// attention is a bound attention node.
type attention struct {
	dev           *Device
	head          attn.Head
	group         int         // of caches
	residual      *attn.Cache // of one of I4; nil: there is none
	newest        int         // the residual cache's group
	sinks         vector      // of each query head; nil: there are none
	q, out        []float32
	heads         int // query heads
	share         int // of them per key head
	result        int // numbers of a head's result: the size of values or, of a partial one, one more
	split         *splitKV
	tiles         []*attn.Tile                    // each worker's
	partials      []float32                       // [partial][query head][partialFloats]
	partialFloats int                             // floats of a partial
	taken         atomic.Uint64                   // step << 32 | tasks taken in it
	skip          func(w *worker, seq int32) bool // sequences that are computed in another way; nil: none
}

// tileFloats is the size of a worker's tile, in whole cache lines.
func (d *Device) tileFloats(n *graph.Node) int {
	c := n.In[1].Cache
	share := n.In[0].Axis.Count / c.K.Count
	return (attn.TileFloats(d.tier, max(tileRows, share), c.K.Size, c.V.Size) + 15) / 16 * 16
}

// attentionScratch is the size, for each worker, of its tile and its part of the memory for partial results.
func (d *Device) attentionScratch(n *graph.Node, lim backend.Limits) int64 {
	workers := d.pool.N()
	partials := partialRows(n, lim) * n.In[0].Axis.Count * attn.PartialFloats(n.In[1].Cache.V.Size)
	return 4 * int64(d.tileFloats(n)+(partials+workers-1)/workers)
}

// partialRows is how many partial results of a token (in one segment, with all heads) there is memory for: what all
// sequences need to decode at full length, but at most 32 MiB, and at least what one needs.
func partialRows(n *graph.Node, lim backend.Limits) int {
	longest := (lim.SeqPages*lim.PageSize + attn.Segment - 1) / attn.Segment
	size := 4 * n.In[0].Axis.Count * attn.PartialFloats(n.In[1].Cache.V.Size)
	return min(lim.Seqs*longest, max(longest, 32<<20/size))
}

func bindAttention(d *Device, n *graph.Node, a backend.Args) (body, error) {
	t, err := newAttention(d, n, a)
	if err != nil {
		return nil, err
	}
	return t.run, nil
}

func newAttention(d *Device, n *graph.Node, a backend.Args) (*attention, error) {
	c := n.In[1].Cache
	o, _ := graph.AttentionOf(n)
	result := n.Out[0].Axis.Size
	cache, err := cacheOf(c, a.In[1], a.Limits)
	if err != nil {
		return nil, err
	}
	t := &attention{
		dev: d, group: c.Group, q: floats(a.In[0]), out: floats(a.Out[0]), heads: n.In[0].Axis.Count,
		head:  attn.Head{Cache: cache, Scale: float32(o.Scale), Softcap: float32(o.Softcap)},
		share: n.In[0].Axis.Count / c.K.Count, result: result, partialFloats: attn.PartialFloats(c.V.Size),
	}
	t.split = d.splitFor(splitShape{
		mask:  backend.Mask{Window: c.Window, Chunked: o.Chunked, Bidirectional: o.Bidirectional, Reach: o.Reach},
		group: c.Group, rows: max(1, tileRows/t.share), partialRows: partialRows(n, a.Limits), pageSize: a.Limits.PageSize,
		tasks: (workerTasks*d.pool.N() + c.K.Count - 1) / c.K.Count, lines: d.deterministic,
	})
	if c.Type == graph.I4 {
		if t.residual, err = cacheOf(n.In[2].Cache, a.In[2], a.Limits); err != nil {
			return nil, err
		}
		t.newest = n.In[2].Cache.Group
	}
	if len(a.Weights) == 1 {
		t.sinks = a.Weights[0].(vector)
	}
	mem, each := floats(a.Scratch), d.tileFloats(n)
	for range d.pool.all {
		t.tiles = append(t.tiles, attn.NewTile(d.tier, mem[:each], max(tileRows, t.share), c.K.Size, c.V.Size))
		mem = mem[each:]
	}
	t.partials = mem
	return t, nil
}

// run takes tasks until none are left, and combines partial results (split-KV). No result depends on which worker takes which task.
func (t *attention) run(w *worker, b *backend.Batch) {
	tasks, combines := t.split.of(b, t.dev.steps)
	tile, kvHeads := t.tiles[w.id], t.head.Cache.Heads
	for {
		i := t.nextTask()
		if i >= len(tasks)*kvHeads {
			break
		}
		if k := &tasks[i/kvHeads]; t.skip == nil || k.split || !t.skip(w, k.seq) {
			t.compute(tile, b, k, i%kvHeads)
		}
	}
	if len(combines) == 0 {
		return
	}
	w.sync()
	from, to := w.share(len(combines)*t.heads, 1)
	for i := from; i < to; i++ {
		m, head := combines[i/t.heads], i%t.heads
		at := (int(m.partial)*t.heads + head) * t.partialFloats
		tile.CombinePartials(t.partials[at:], t.heads*t.partialFloats, int(m.segments))
		t.write(tile, 0, head, t.out[(int(m.row)*t.heads+head)*t.result:][:t.result])
	}
}

// nextTask is the number of the next task of this step; the first call of a step starts from 0.
func (t *attention) nextTask() int {
	step := uint64(t.dev.steps) << 32
	for {
		now := t.taken.Load()
		next := now
		if now&^0xffffffff != step {
			next = step
		}
		if t.taken.CompareAndSwap(now, next+1) {
			return int(next & 0xffffffff)
		}
	}
}

// compute attends to the task's keys with the query heads of one key head.
func (t *attention) compute(tile *attn.Tile, b *backend.Batch, k *task, kv int) {
	tile.Reset()
	cache, first := t.head.Cache, kv*t.share
	for _, r := range k.rows {
		seen := &t.split.seen[r]
		tile.AddTreeQueries(t.head, t.q[(int(r)*t.heads+first)*cache.KeySize:][:t.share*cache.KeySize], seen.Low, seen.High, seen.Base, seen.Mask)
		if t.residual != nil {
			tile.Newest(t.share, t.split.newest(int(r)))
		}
	}
	pages := pagesOf(b, t.group, k.seq)
	tile.Line(t.split.line(int(k.rows[0]))) // a token whose keys lie apart is alone
	for s := int(k.from); s < int(k.to); s++ {
		if t.residual == nil {
			tile.Segment(t.head, pages, kv, s)
		} else {
			tile.Int4Segment(t.head, pages, t.residual, pagesOf(b, t.newest, k.seq), kv, s)
		}
		if !k.split {
			tile.Merge(s)
			continue
		}
		for i, r := range k.rows {
			partial := int(t.split.partial[r]) + s - t.split.firstSegment(int(r))
			for j := range t.share {
				tile.Partial(i*t.share+j, t.partials[(partial*t.heads+first+j)*t.partialFloats:][:t.partialFloats])
			}
		}
	}
	if k.split {
		return
	}
	for i, r := range k.rows {
		for j := range t.share {
			t.write(tile, i*t.share+j, first+j, t.out[(int(r)*t.heads+first+j)*t.result:][:t.result])
		}
	}
}

// pagesOf is a sequence's pages in a cache group.
func pagesOf(b *backend.Batch, group int, seq int32) []int32 {
	return b.Table(group).Pages[int(seq)*b.SeqPages : (int(seq)+1)*b.SeqPages]
}

// write writes the result of a tile's row, which is of some query head.
func (t *attention) write(tile *attn.Tile, row, head int, out []float32) {
	if t.sinks != nil {
		tile.Sink(row, t.sinks[head])
	}
	if t.result == t.head.Cache.ValueSize {
		tile.Out(row, out)
		return
	}
	tile.OutPart(row, out)
}
