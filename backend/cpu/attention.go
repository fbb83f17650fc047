package cpu

import (
	"math"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
)

// Tiled attention with an online softmax (FlashAttention-2, Dao, arXiv:2307.08691): a task is a tile of queries of
// one sequence and one key head with all the query heads that share it. It walks over the keys a page-aligned tile at
// a time; the tile is decoded once and scored against every query, and the running maximum, sum and output of each
// query are corrected as it goes. There is never a row of scores longer than a tile.
const (
	queryTile = 16 // tokens
	keyTile   = 64 // tokens; a multiple of common page sizes
)

// attendScratch is one worker's memory, in floats.
type attendScratch struct {
	k, v   []float32 // [keyTile, size] decoded
	acc    []float32 // [queryTile × share, value size]
	top    []float32 // [queryTile × share] running maximum of the scores
	sum    []float32 // [queryTile × share] running Σ exp(score - top)
	scores []float32 // [keyTile]
}

func attentionScratch(n *graph.Node, _ backend.Limits) int64 {
	c := n.In[1].Cache
	lanes := queryTile * n.In[0].Axis.Count / c.K.Count
	return 4 * int64(keyTile*(c.K.Size+c.V.Size+1)+lanes*(c.V.Size+2))
}

// cut gives each part of the scratch its place.
func (s *attendScratch) cut(mem []float32, kSize, vSize, lanes int) {
	take := func(n int) []float32 {
		part := mem[:n:n]
		mem = mem[n:]
		return part
	}
	s.k, s.v, s.scores = take(keyTile*kSize), take(keyTile*vSize), take(keyTile)
	s.acc, s.top, s.sum = take(lanes*vSize), take(lanes), take(lanes)
}

// attender is a bound attention node.
type attender struct {
	op      graph.Attention
	cache   *graph.Cache
	pages   pages
	q, out  []float32
	heads   int // query heads
	share   int // of them per key head
	scratch [][]float32
	next    atomic.Int64 // next task of this step
}

func bindAttention(_ vec.Ops, n *graph.Node, a backend.Args) body {
	c := n.In[1].Cache
	t := &attender{
		op: n.Op.(graph.Attention), cache: c, pages: pages{c, a.In[1], a.Limits.PageSize},
		q: floats(a.In[0]), out: floats(a.Out[0]), heads: n.In[0].Axis.Count, share: n.In[0].Axis.Count / c.K.Count,
	}
	each := int(attentionScratch(n, a.Limits) / 4)
	for mem := floats(a.Scratch); len(mem) >= each; mem = mem[each:] {
		t.scratch = append(t.scratch, mem[:each])
	}
	return t.run
}

// run takes tasks until none are left. The order in which workers come does not change any result: a task is
// computed by one worker from start to end.
func (t *attender) run(w *worker, b *backend.Batch) {
	var s attendScratch
	s.cut(t.scratch[w.id], t.cache.K.Size, t.cache.V.Size, queryTile*t.share)
	task := t.next.Add(1) - 1
	var at int64
	for seq := range b.Seqs() {
		for from := b.QStart[seq]; from < b.QStart[seq+1]; from += queryTile {
			for kv := range t.cache.K.Count {
				if at == task {
					t.tile(&s, b, seq, int(from), int(min(from+queryTile, b.QStart[seq+1])), kv)
					task = t.next.Add(1) - 1
				}
				at++
			}
		}
	}
	w.sync()
	if w.id == 0 {
		t.next.Store(0)
	}
}

// tile computes rows [from, to) of a sequence for the query heads of key head kv.
func (t *attender) tile(s *attendScratch, b *backend.Batch, seq, from, to, kv int) {
	for i := range s.top {
		s.top[i], s.sum[i] = float32(math.Inf(-1)), 0
	}
	clear(s.acc)
	first, last := 0, int(b.Positions[to-1])
	if t.cache.Window > 0 {
		first = max(0, int(b.Positions[from])-t.cache.Window+1)
	}
	for tile := first / keyTile * keyTile; tile <= last; tile += keyTile {
		end := min(tile+keyTile, last+1)
		t.decode(s, b, seq, kv, max(tile, first), end, tile)
		for r := from; r < to; r++ {
			p := int(b.Positions[r])
			lo, hi := max(tile, first), min(end, p+1)
			if t.cache.Window > 0 {
				lo = max(lo, p-t.cache.Window+1)
			}
			if lo >= hi {
				continue
			}
			for j := range t.share {
				t.score(s, r, kv*t.share+j, (r-from)*t.share+j, lo-tile, hi-tile)
			}
		}
	}
	size := t.cache.V.Size
	for r := from; r < to; r++ {
		for j := range t.share {
			lane := (r-from)*t.share + j
			out := t.out[(r*t.heads+kv*t.share+j)*size:][:size]
			for i, x := range s.acc[lane*size : (lane+1)*size] {
				out[i] = x / s.sum[lane]
			}
		}
	}
}

// decode loads keys and values of positions [from, to) as F32; position tile comes to row 0.
func (t *attender) decode(s *attendScratch, b *backend.Batch, seq, kv, from, to, tile int) {
	k, v, page := t.cache.K.Size, t.cache.V.Size, t.pages.pageSize
	for p := from; p < to; {
		n := min(page-p%page, to-p)
		id := int(b.Pages[seq*b.SeqPages+p/page])
		t.pages.load(s.k[(p-tile)*k:(p-tile+n)*k], t.pages.keys(id, kv)+p%page*k)
		t.pages.load(s.v[(p-tile)*v:(p-tile+n)*v], t.pages.values(id, kv)+p%page*v)
		p += n
	}
}

// score brings keys [lo, hi) of the tile into the running softmax of one query head.
func (t *attender) score(s *attendScratch, row, head, lane, lo, hi int) {
	k, v := t.cache.K.Size, t.cache.V.Size
	q := t.q[(row*t.heads+head)*k:][:k]
	top := s.top[lane]
	for j := lo; j < hi; j++ {
		x := dot(q, s.k[j*k:]) * float32(t.op.Scale)
		if t.op.Softcap != 0 {
			x = float32(t.op.Softcap * math.Tanh(float64(x)/t.op.Softcap))
		}
		s.scores[j] = x
		top = max(top, x)
	}
	acc := s.acc[lane*v : (lane+1)*v]
	if correct := float32(math.Exp(float64(s.top[lane] - top))); correct != 1 {
		s.sum[lane] *= correct
		for i := range acc {
			acc[i] *= correct
		}
	}
	s.top[lane] = top
	for j := lo; j < hi; j++ {
		e := float32(math.Exp(float64(s.scores[j] - top)))
		s.sum[lane] += e
		axpy(acc, e, s.v[j*v:(j+1)*v])
	}
}
