package cpu

import (
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// BenchmarkAttention runs one layer of the Llama-3.2-1B shape and others on every core and reports fractions of the limit
// measured in the same run: arithmetic for prefill, reading the cache for decode.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []attentionCase{
		{"prefill512", 32, 8, 64, 512, 512, 1, 0, graph.F16},
		{"prefill512/int8", 32, 8, 64, 512, 512, 1, 0, graph.I8},
		{"prefill512/size128", 16, 8, 128, 512, 512, 1, 0, graph.F16},
		{"prefill512/mha", 8, 8, 64, 512, 512, 1, 0, graph.F16},
		{"prefill128at4096", 32, 8, 64, 128, 4096, 1, 0, graph.F16},
		{"decode4096", 32, 8, 64, 1, 4096, 1, 0, graph.F16},
		{"decode4096/bf16", 32, 8, 64, 1, 4096, 1, 0, graph.BF16},
		{"decode4096/int8", 32, 8, 64, 1, 4096, 1, 0, graph.I8},
		{"decode4096/int4", 32, 8, 64, 1, 4096, 1, 0, graph.I4},
		{"decode4096/f32", 32, 8, 64, 1, 4096, 1, 0, graph.F32},
		{"decode4096/size128", 16, 8, 128, 1, 4096, 1, 0, graph.F16},
		{"decode8x1024", 32, 8, 64, 1, 1024, 8, 0, graph.F16},
		{"decode8x1024/common768", 32, 8, 64, 1, 1024, 8, 768, graph.F16},
	} {
		b.Run(c.name, c.run)
	}
}

// attentionCase is one layer's attention.
type attentionCase struct {
	name            string
	heads, kv, size int
	new, depth      int // tokens that a step computes of each sequence, and those in its cache then
	seqs, common    int // sequences, and the tokens that all begin with
	cache           graph.Type
}

func (c attentionCase) limits() backend.Limits {
	page := graph.PageTokens(c.cache)
	return backend.Limits{Tokens: c.new * c.seqs, Seqs: c.seqs, PageSize: page, SeqPages: c.depth / page, Pages: c.seqs * c.depth / page}
}

// node is the attention in a graph, and its cache.
func (c attentionCase) node() (*graph.Node, *graph.Cache) {
	kv := graph.Axis{Name: "kv", Count: c.kv, Size: c.size}
	cache := &graph.Cache{K: kv, V: kv, Type: c.cache}
	q := &graph.Value{Axis: graph.Axis{Name: "heads", Count: c.heads, Size: c.size}}
	n := &graph.Node{Op: graph.Attention{Scale: 0.1}, In: []*graph.Value{q, {Cache: cache}}, Out: []*graph.Value{q}}
	if c.cache == graph.I4 {
		n.In = append(n.In, &graph.Value{Cache: &graph.Cache{K: kv, V: kv, Type: graph.F16, Window: quant.Int4Group, Residual: true}})
	}
	return n, cache
}

// batch is a step in which every sequence computes its last tokens. Its pages lie anywhere.
func (c attentionCase) batch(lim backend.Limits) *backend.Batch {
	batch := &backend.Batch{}
	batch.Reset(1, lim.SeqPages)
	table := batch.Table(0)
	for s := range c.seqs {
		for i := range c.new {
			batch.Tokens = append(batch.Tokens, 0)
			batch.Positions = append(batch.Positions, int32(c.depth-c.new+i))
		}
		batch.QStart = append(batch.QStart, int32(len(batch.Tokens)))
		batch.KVLen = append(batch.KVLen, int32(c.depth))
		for p := range lim.SeqPages {
			page := s*lim.SeqPages + p
			if p*lim.PageSize < c.common {
				page = p
			}
			table.Pages = append(table.Pages, int32(page*7919%lim.Pages))
		}
	}
	return batch
}

// launches are the layers' attention: of decoding so many that their caches do not fit into the processor's.
func (c attentionCase) launches(b *testing.B, d *Device, n *graph.Node, cache *graph.Cache, lim backend.Limits) (all []backend.Launch) {
	// alloc fills memory with numbers between 1/8 and 8 in magnitude, in whatever type it is read.
	alloc := func(size int64) backend.Buffer {
		m, _ := d.Alloc(size, "test")
		for i := range uint16s(m) {
			uint16s(m)[i] = uint16(i*0x9e3779b1>>16)&0x83ff | 0x3000
		}
		return m
	}
	q, k := n.Out[0], d.Kernels(n)[0]
	in, out, scratch := alloc(int64(lim.Tokens)*q.RowBytes()), alloc(int64(lim.Tokens)*q.RowBytes()), alloc(k.Scratch(n, lim))
	bytes, layers := int64(lim.Pages)*lim.PageBytes(cache), int64(1)
	if c.new == 1 {
		layers = min(16, 600<<20/bytes)
	}
	for range layers {
		ins := []backend.Buffer{in}
		for _, v := range n.In[1:] {
			ins = append(ins, alloc(int64(lim.Pages)*lim.PageBytes(v.Cache)))
		}
		l, err := k.Bind(n, backend.Args{In: ins, Out: []backend.Buffer{out}, Scratch: scratch, Limits: lim})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func (c attentionCase) run(b *testing.B) {
	d, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	lim := c.limits()
	n, cache := c.node()
	launches, batch := c.launches(b, d, n, cache, lim), c.batch(lim)
	var step graph.Step
	batch.Step(&step)
	work := n.Op.Work(n, &step)
	read := float64(work.CacheRead) - float64((c.seqs-1)*c.common)*float64(cache.RowBytes())
	peaks, err := d.Peaks()
	if err != nil {
		b.Fatal(err)
	}
	best := time.Hour // of a shared machine's noisy times
	for b.Loop() {
		start := time.Now()
		if err := d.Run(launches, batch); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	took := best.Seconds() / float64(len(launches))
	b.ReportMetric(100*float64(work.FLOPs)/took/peaks.F32, "%peak")
	b.ReportMetric(100*read/took/peaks.Read, "%read")
	b.ReportMetric(float64(work.FLOPs)/took/1e9, "Gflop/s")
	b.ReportMetric(read/took/1e9, "GB/s")
}
