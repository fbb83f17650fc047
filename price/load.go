package price

import "github.com/ridge-llm/ridge/graph"

// Shape is the size of a step as a scheduler counts it while it plans: without the windows of caches.
type Shape struct {
	Tokens int // rows
	Logits int // rows whose logits are wanted
	Drafts int // of them, those of drafted tokens, which come behind a sequence's own
	Rows   int // Σ of cache rows read, this step's included
	Pairs  int // Σ of pairs of a token and a cache row that it attends to
}

// load is all that the work of a step depends on: its rows and sequences, and for each window of the model's caches what attention
// with it reads and scores.
type load struct {
	tokens, logits int64
	seqs, resumed  int64 // sequences, and those of them that have a past: states written and read
	decodes        bool  // every sequence goes on by one token
	rows, pairs    [maxWindows]int64
	adapters       adapterLoad
}

// share is what one of so many devices has where they divide the rows of steps, and what these attend to, equally.
func (l load) share(devices int64) load {
	for _, n := range []*int64{&l.tokens, &l.adapters.rows, &l.adapters.rankRows} {
		*n = (*n + devices - 1) / devices
	}
	for i := range l.rows {
		l.rows[i], l.pairs[i] = (l.rows[i]+devices-1)/devices, (l.pairs[i]+devices-1)/devices
	}
	return l
}

// adapterLoad is what the adapters of a step do: rows that they change, a row once for each of its adapters.
type adapterLoad struct {
	rows      int64
	count     int64 // of adapters
	rankRows  int64 // Σ of rank, over those rows
	rankBytes int64 // Σ of rank × bytes of a number, over the adapters, each once
}

// adaptersOf is the load of a step's adapters.
func adaptersOf(s *graph.Step) (l adapterLoad) {
	for i, a := range s.Adapters {
		rows := int64(s.Seqs[a.Seq].New - a.Skip)
		l.rows += rows
		l.rankRows += rows * int64(a.Rank)
		if i == 0 || s.Adapters[i-1].Slot != a.Slot {
			l.count++
			l.rankBytes += int64(a.Rank) * int64(a.Bytes)
		}
	}
	return l
}

// maxWindows is how many different windows the caches of a model may have.
const maxWindows = 8

// window is which of a sequence's rows attention reads and scores: the last so many, those of a chunk of so many, or, both ways, those
// within a reach; 0: all.
type window struct {
	size, reach       int
	chunked, bothWays bool
}

// windowOf is the attention window of a node over one of its inputs, a cache.
func windowOf(n *graph.Node, c *graph.Cache) window {
	if _, ok := n.Op.(graph.SparseAttention); ok { // as many rows as are chosen
		return window{size: n.In[2].Axis.Len()}
	}
	o, _ := graph.AttentionOf(n)
	return window{size: c.Window, reach: o.Reach, chunked: o.Chunked, bothWays: o.Bidirectional}
}

// of is what is read and scored in a step.
func (w window) of(s *graph.Step) (rows, pairs int64) {
	switch {
	case w.chunked:
		return s.ChunkRows(w.size), s.ChunkPairs(w.size)
	case w.reach > 0:
		return s.CtxRows(0), s.NearPairs(w.reach)
	case w.bothWays:
		return s.CtxRows(0), s.AllPairs()
	}
	return s.CtxRows(w.size), s.Pairs(w.size)
}

// measure is the load of a step.
func (m *Model) measure(s *graph.Step) load {
	l := load{tokens: int64(s.Tokens()), logits: int64(s.Logits), seqs: int64(len(s.Seqs)), adapters: adaptersOf(s)}
	for _, q := range s.Seqs {
		if q.Past > 0 {
			l.resumed++
		}
	}
	l.decodes = l.tokens == int64(len(s.Seqs))
	for i, w := range m.windows {
		l.rows[i], l.pairs[i] = w.of(s)
	}
	return l
}

// guess is the load of a shape. Its rows have adapters as those of the last step had that was observed. Sequences, all of which have a past, and windowed rows and pairs are upper bounds: every row of logits but those of
// drafts is a sequence, and there may be one more, whose prompt is not finished in this step.
func (m *Model) guess(s Shape) load {
	l := load{tokens: int64(s.Tokens), logits: int64(s.Logits), decodes: s.Tokens == s.Logits && s.Drafts == 0}
	l.seqs = min(l.logits-int64(s.Drafts)+1, l.tokens)
	l.resumed = l.seqs
	if last := m.adapted.Load(); last != nil && last.adapters.rows > 0 {
		l.adapters = last.adapters
		l.adapters.rows = l.adapters.rows * l.tokens / max(last.tokens, 1)
		l.adapters.rankRows = l.adapters.rankRows * l.tokens / max(last.tokens, 1)
	}
	for i, w := range m.windows {
		l.rows[i], l.pairs[i] = int64(s.Rows), int64(s.Pairs)
		if w.bothWays {
			l.pairs[i] *= 2
		}
		if w.reach > 0 {
			l.pairs[i] = min(l.pairs[i], l.tokens*int64(2*w.reach+1))
		}
		if w.size > 0 {
			l.rows[i] = min(l.rows[i], l.tokens+l.seqs*int64(w.size-1))
			l.pairs[i] = min(l.pairs[i], l.tokens*int64(w.size))
		}
	}
	return l
}
