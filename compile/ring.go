package compile

import (
	"errors"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
)

// ring is attention of one of several devices that divide rows, and keys and values by tokens: see graph.RingAttention.
type ring struct {
	node  *graph.Node
	op    graph.RingAttention
	cache *graph.Cache
	in    backend.Buffer // own queries
	out   backend.Buffer
	space *ringSpace

	own      []backend.Launch // own queries to the device's keys
	visiting []backend.Launch // own queries to another device's
	ofAll    []backend.Launch // all queries to the device's keys
}

// ringSpace is memory that the layers of a program share, each for itself while it runs.
type ringSpace struct {
	scratch, queries, partial, pages backend.Buffer

	batch       backend.Batch // of rows to a device's keys
	ids         []int32       // of pages that go round
	page        map[int32]int32
	keys, next  []float32 // the pages of one device, and those of the one before
	read        []float32
	result, lse []float32
	to, from    [][]float32
	sent, got   []float32
}

// isRing tells the op.
func isRing(op graph.Op) bool {
	_, ok := op.(graph.RingAttention)
	return ok
}

// String implements backend.Launch.
func (x *ring) String() string { return hostText(x.node) }

// partialOf is a node of the ring as the device computes it: to some of the keys, with or without sinks, which count once.
func partialOf(n *graph.Node, sinks bool) *graph.Node {
	q := *n.In[0]
	p := &graph.Node{Op: graph.PartialAttention{Attention: n.Op.(graph.RingAttention).Attention}, In: []*graph.Value{&q, n.In[1]}, At: n.At, Layer: n.Layer}
	if sinks {
		p.Weights = n.Weights
	}
	axis := n.Out[0].Axis
	axis.Size++
	p.Out = []*graph.Value{{Name: n.Out[0].Name + ".partial", Rows: q.Rows, Axis: axis, Type: graph.F32, From: p}}
	return p
}

// ringSpace gets the memory that the largest of the program's rings needs.
func (p *Program) makeRingSpace() error {
	var scratch, queries, partial, pages int64
	for _, n := range p.Graph.Nodes {
		if !isRing(n.Op) {
			continue
		}
		part := partialOf(n, true)
		kernels := p.dev.Kernels(part)
		if len(kernels) == 0 {
			return p.refusal(part)
		}
		c := n.In[1].Cache
		rows := int64(p.limits.Tokens)
		scratch = max(scratch, kernels[0].Scratch(part, p.limits))
		queries, partial = max(queries, rows*n.In[0].RowBytes()), max(partial, rows*part.Out[0].RowBytes())
		pages = max(pages, int64(p.limits.GroupPages(c.Group))*p.limits.PageBytes(c))
	}
	s := &ringSpace{page: map[int32]int32{}, to: make([][]float32, p.seq.Ranks), from: make([][]float32, p.seq.Ranks)}
	for _, b := range []struct {
		to   *backend.Buffer
		n    int64
		what string
	}{
		{&s.scratch, scratch, "scratch of attention over divided rows"}, {&s.queries, queries, "queries of all rows"}, {&s.partial, partial, "results of some keys"},
		{&s.pages, pages, "keys and values of another device"},
	} {
		var err error
		if *b.to, err = p.alloc(max(b.n, 64), b.what); err != nil {
			return err
		}
		p.memory.Arena += b.n
	}
	p.ring = s
	return nil
}

// newRing binds the node's launches.
func (p *Program) newRing(n *graph.Node) (*ring, error) {
	if _, ok := p.dev.(backend.Writer); !ok {
		return nil, p.cannotExchange(n)
	}
	if p.ring == nil {
		if err := p.makeRingSpace(); err != nil {
			return nil, err
		}
	}
	x := &ring{node: n, op: n.Op.(graph.RingAttention), cache: n.In[1].Cache, in: p.where[n.In[0]], out: p.where[n.Out[0]], space: p.ring}
	own := p.pages[x.cache]
	for _, l := range []struct {
		to      *[]backend.Launch
		q, keys backend.Buffer
		sinks   bool
	}{
		{&x.own, x.in, own, true}, {&x.visiting, x.in, p.ring.pages, false}, {&x.ofAll, p.ring.queries, own, p.seq.Rank == 0},
	} {
		part := partialOf(n, l.sinks)
		k := p.dev.Kernels(part)
		if len(k) == 0 {
			return nil, p.refusal(part)
		}
		a := backend.Args{In: []backend.Buffer{l.q, l.keys}, Out: []backend.Buffer{p.ring.partial}, Scratch: p.ring.scratch, Limits: p.limits}
		for _, w := range part.Weights {
			a.Weights = append(a.Weights, p.weights[w].Weight)
		}
		launch, err := k[0].Bind(part, a)
		if err != nil {
			return nil, fmt.Errorf("compile: kernel %s for node %s: %w", k[0].Name(), part, err)
		}
		*l.to = []backend.Launch{launch}
	}
	return x, nil
}

// heads, and numbers of a head's result.
func (x *ring) shape() (heads, size int) { return x.node.Out[0].Axis.Count, x.node.Out[0].Axis.Size }

// run attends with the rows of a step; b is the whole batch. What goes round is what is less.
func (x *ring) run(p *Program, b *backend.Batch) error {
	s := p.seq
	x.pagesOf(p, b)
	others := int64(s.Ranks - 1)
	keys := others * int64(len(x.space.ids)) * p.limits.PageBytes(x.cache)
	queries := others * int64((len(b.Tokens)+s.Ranks-1)/s.Ranks) * x.op.QueryBytes(x.node)
	own := len(s.rows[s.Rank])
	heads, size := x.shape()
	x.space.result, x.space.lse = grown(&x.space.result, own*heads*size), grown(&x.space.lse, own*heads)
	clear(x.space.result)
	for i := range x.space.lse {
		x.space.lse[i] = float32(math.Inf(-1))
	}
	err := error(nil)
	if keys <= queries {
		err = x.passKeys(p, b)
	} else {
		err = x.passQueries(p, b)
	}
	if err != nil || own == 0 {
		return err
	}
	return p.dev.(backend.Writer).Write(x.node.Out[0], x.out, x.space.result, own)
}

func (x *ring) mask() backend.Mask {
	return backend.Mask{Window: x.cache.Window, Chunked: x.op.Chunked, Bidirectional: x.op.Bidirectional, Reach: x.op.Reach}
}

// pagesOf lists the pages whose keys some row of the step sees, each once.
func (x *ring) pagesOf(p *Program, b *backend.Batch) {
	w, s := x.space, p.seq
	w.ids = w.ids[:0]
	clear(w.page)
	table := b.Table(x.cache.Group).Pages
	for q := range b.Seqs() {
		low := int(b.KVLen[q])
		for r := b.QStart[q]; r < b.QStart[q+1]; r++ {
			low = min(low, b.KeysOf(q, int(r), x.mask()).Low)
		}
		for i := low / s.cycle(); i*s.cycle() < int(b.KVLen[q]); i++ {
			id := table[q*b.SeqPages+i]
			if _, seen := w.page[id]; !seen {
				w.page[id] = int32(len(w.ids))
				w.ids = append(w.ids, id)
			}
		}
	}
}

// view makes the batch of some rows of the step against the keys that a device has. moved says that its pages are those that went round.
func (x *ring) view(s *sequence, b *backend.Batch, rows []int32, device int, moved bool) *backend.Batch {
	v := &x.space.batch
	v.Reset(1, b.SeqPages)
	t, table := &v.Tables[0], b.Table(x.cache.Group).Pages
	last := int32(-1)
	for i, r := range rows {
		q := s.seqOf[r]
		if q != last {
			if last = q; i > 0 {
				v.QStart = append(v.QStart, int32(i))
			}
			v.KVLen, v.RopeLen = append(v.KVLen, int32(s.count(device, int(b.KVLen[q])))), append(v.RopeLen, 0)
			pages := table[int(q)*b.SeqPages : (int(q)+1)*b.SeqPages]
			for _, id := range pages {
				if moved {
					id = x.space.page[id] // 0, one of them, where no row looks
				}
				t.Pages = append(t.Pages, id)
			}
		}
		v.Tokens, v.Positions = append(v.Tokens, 0), append(v.Positions, 0)
		v.Seen = append(v.Seen, s.keys(device, b.KeysOf(int(q), int(r), x.mask())))
	}
	v.QStart = append(v.QStart, int32(len(rows)))
	return v
}

// pageRow is a page of the cache as a row of numbers: its bytes, four at a time.
func (x *ring) pageRow(p *Program) *graph.Value {
	return &graph.Value{Name: x.cache.Name, Axis: graph.Axis{Name: "page", Count: int(p.limits.PageBytes(x.cache) / 4), Size: 1}, Type: graph.F32}
}

// passKeys attends with the device's own queries to the keys of all devices, which go round.
func (x *ring) passKeys(p *Program, b *backend.Batch) error {
	w, s := x.space, p.seq
	page := x.pageRow(p)
	n := page.Axis.Len()
	w.keys, w.next = grown(&w.keys, len(w.ids)*n), grown(&w.next, len(w.ids)*n)
	for i, id := range w.ids {
		if err := p.dev.Read(w.keys[i*n:(i+1)*n], page, p.pages[x.cache], int(id), 1); err != nil {
			return err
		}
	}
	for i := range s.Ranks {
		if err := x.round(p, b, (s.Rank+s.Ranks-i)%s.Ranks, page, i < s.Ranks-1); err != nil {
			return err
		}
		w.keys, w.next = w.next, w.keys
	}
	return nil
}

// round attends to the keys of one device while, if there is another round, these go on to the next device and those of the one before come.
func (x *ring) round(p *Program, b *backend.Batch, device int, page *graph.Value, more bool) (err error) {
	w, s := x.space, p.seq
	if more {
		for k := range w.to {
			w.to[k], w.from[k] = nil, nil
		}
		w.to[(s.Rank+1)%s.Ranks], w.from[(s.Rank+s.Ranks-1)%s.Ranks] = w.keys, w.next
		passed := make(chan error, 1)
		go func() { passed <- comm.AllToAll(s.peers, w.to, w.from) }()
		defer func() { err = errors.Join(err, <-passed) }() // also when this one panics: the buffers are in use until then
	}
	return x.attend(p, b, device, page)
}

// attend attends with the device's own queries to the keys of one device, which are its own or those in w.keys, and merges the results.
func (x *ring) attend(p *Program, b *backend.Batch, device int, page *graph.Value) error {
	w, s := x.space, p.seq
	rows := s.rows[s.Rank]
	if len(rows) == 0 {
		return nil
	}
	launch := x.own
	if device != s.Rank {
		launch = x.visiting
		if err := p.dev.(backend.Writer).Write(page, w.pages, w.keys, len(w.ids)); err != nil {
			return err
		}
	}
	if err := p.dev.Run(launch, x.view(s, b, rows, device, device != s.Rank)); err != nil {
		return err
	}
	part, err := x.readPart(p, len(rows))
	if err == nil {
		x.merge(part)
	}
	return err
}

// readPart is the results of some keys that the device has just made.
func (x *ring) readPart(p *Program, rows int) ([]float32, error) {
	w, n := x.space, partialOf(x.node, false).Out[0]
	part := grown(&w.read, rows*n.Axis.Len())
	return part, p.dev.Read(part, n, w.partial, 0, rows)
}

// merge adds results of other keys to those so far: both count as much as the sums of their exponentials.
func (x *ring) merge(part []float32) {
	w := x.space
	_, size := x.shape()
	for i := range w.lse {
		y, z := w.result[i*size:(i+1)*size], part[i*(size+1):(i+1)*(size+1)]
		a, b := float64(w.lse[i]), float64(z[size])
		if math.IsInf(b, -1) {
			continue
		}
		high := max(a, b)
		f, g := math.Exp(a-high), math.Exp(b-high)
		sum := f + g
		for k := range y {
			y[k] = float32((f*float64(y[k]) + g*float64(z[k])) / sum)
		}
		w.lse[i] = float32(high + math.Log(sum))
	}
}

// passQueries attends with the queries of all devices to the keys that this one has, and sends each the results of its rows.
func (x *ring) passQueries(p *Program, b *backend.Batch) error {
	w, s := x.space, p.seq
	all, own := len(b.Tokens), s.rows[s.Rank]
	q := x.node.In[0]
	width := q.Axis.Len()
	read := grown(&w.read, len(own)*width)
	if len(own) > 0 {
		if err := p.dev.Read(read, q, x.in, 0, len(own)); err != nil {
			return err
		}
	}
	got := grown(&w.got, all*width)
	for i, rows := range s.rows {
		n := len(rows) * width
		w.to[i], w.from[i], got = read, got[:n:n], got[n:]
	}
	if err := comm.AllToAll(s.peers, w.to, w.from); err != nil {
		return err
	}
	queries := grown(&w.sent, all*width)
	for i, rows := range s.rows {
		scatterRows(queries, w.from[i], rows, width)
	}
	if err := p.dev.(backend.Writer).Write(q, w.queries, queries, all); err != nil {
		return err
	}
	if err := p.dev.Run(x.ofAll, x.view(s, b, s.every, s.Rank, false)); err != nil {
		return err
	}
	return x.returnParts(p)
}

// returnParts sends every device what this one's keys make of its rows, and merges what comes back.
func (x *ring) returnParts(p *Program) error {
	w, s := x.space, p.seq
	heads, size := x.shape()
	width := heads * (size + 1)
	part, err := x.readPart(p, len(s.every))
	if err != nil {
		return err
	}
	sent, got := grown(&w.sent, len(s.every)*width), grown(&w.got, s.Ranks*len(s.rows[s.Rank])*width)
	for i, rows := range s.rows {
		n, m := len(rows)*width, len(s.rows[s.Rank])*width
		w.to[i], sent = gatherRows(sent, part, rows, width), sent[n:]
		w.from[i], got = got[:m:m], got[m:]
	}
	if err := comm.AllToAll(s.peers, w.to, w.from); err != nil {
		return err
	}
	for _, part := range w.from { // in the order of ranks
		x.merge(part)
	}
	return nil
}
