package cuda

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// noise gives every tensor of a model from a block of random numbers in its format, each from a place of its own. Norms in F32
// are ones, other vectors in F32 zeros.
type noise map[string]quant.Tensor

func newNoise(b *testing.B, g *graph.Graph) noise {
	n, blocks := noise{}, map[quant.Format][]byte{}
	for i, w := range g.Weights {
		rows, cols := w.From+w.Matrices()*w.Out.Len(), w.In.Len() // of the tensor up to the end of this part of it
		if n[w.Tensor].Rows >= rows {
			continue
		}
		var data []byte
		switch {
		case w.Out.Len() == 1 && w.Format == quant.F32 && strings.Contains(w.Name, "norm"):
			data = bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, rows*cols)
		case w.Out.Len() == 1 && w.Format == quant.F32:
			data = make([]byte, 4*rows*cols)
		default:
			if blocks[w.Format] == nil {
				blocks[w.Format] = randomBlock(b, w.Format)
			}
			data = blocks[w.Format][w.Format.RowBytes(i%1024*2048):][:int64(rows)*w.Format.RowBytes(cols)]
		}
		t, err := quant.NewTensor(w.Format, rows, cols, data)
		if err != nil {
			b.Fatal(err)
		}
		n[w.Tensor] = t
	}
	return n
}

// randomBlock is a piece of random numbers, again and again, long enough for the largest weight of a model from any place.
func randomBlock(b *testing.B, f quant.Format) []byte {
	const numbers, most = 1 << 20, 1 << 30
	rnd := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, numbers)
	for i := range x {
		x[i] = float32(rnd.NormFloat64() * 0.02)
	}
	block := make([]byte, f.RowBytes(most))
	piece := block[:f.RowBytes(numbers)]
	if err := quant.Encode(f, piece, x); err != nil {
		b.Fatal(err)
	}
	for at := len(piece); at < len(block); at += len(piece) {
		copy(block[at:], piece)
	}
	return block
}

func (n noise) Tensor(name string) (quant.Tensor, bool) {
	t, ok := n[name]
	return t, ok
}

func (n noise) Release([]byte) {}

// llama8B is the graph of Llama-3.1-8B in bf16, with so many of its 32 layers.
func llama8B(b *graph.Builder, layers int) *graph.Value {
	axis := func(name string, count, size int) graph.Axis { return graph.Axis{Name: name, Count: count, Size: size} }
	vocab, hidden, heads, kv, ffn := axis("vocab", 128256, 1), axis("hidden", 4096, 1), axis("heads", 32, 128), axis("kv", 8, 128), axis("ffn", 14336, 1)
	r := &graph.Rotation{Name: "angles", Pairing: graph.HalfPairs, Dim: 128, Theta: 500000}
	x := b.Embed("embd", b.Weight("embd", vocab, hidden), 0)
	n := b.RMSNorm("norm", x, b.Vector("norm", hidden), 1e-5)
	for i := range layers {
		l := layer{b, i, ""}
		at, linear, addNorm := l.at, l.linear, l.addNorm
		q, k, v := linear("q", n, heads), linear("k", n, kv), linear("v", n, kv)
		q, k = b.RoPE(at("q.rot"), q, r), b.RoPE(at("k.rot"), k, r)
		cache := b.KVWrite(b.Cache(i, kv, kv, 0), k, v)
		o := linear("o", b.Attention(at("attn"), q, cache, graph.Attention{Scale: 0.0884}), hidden)
		x, n = addNorm("sum", x, o)
		gate, up := linear("gate", n, ffn), linear("up", n, ffn)
		x, n = addNorm("out", x, linear("down", b.ActMul(at("act"), gate, up, graph.Silu), hidden))
	}
	return b.Linear("logits", b.SelectRows("selected", n), b.Weight("head", vocab, hidden), nil)
}

// load is sequences that each compute n tokens after past others.
type load struct{ seqs, past, n int }

// batchOf is a step of loads.
func batchOf(lim backend.Limits, loads []load) *backend.Batch {
	b := &backend.Batch{}
	if len(lim.Groups) > 0 {
		b.Reset(len(lim.Groups), lim.SeqPages)
		for _, c := range loads {
			for range c.seqs {
				tokens := make([]int32, c.n)
				for i := range tokens {
					tokens[i] = int32((b.Seqs()*977 + i*31) % 128256)
				}
				b.AppendSeq(lim, b.Seqs(), c.past, tokens)
				b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
			}
		}
		return b
	}
	b.Reset(1, lim.SeqPages)
	table := b.Table(0)
	page := 0
	for _, c := range loads {
		for s := range c.seqs {
			first := len(table.Pages)
			for p := range lim.SeqPages {
				table.Pages = append(table.Pages, int32((page+p)%lim.Pages))
			}
			page += (c.past + c.n + lim.PageSize - 1) / lim.PageSize
			for i := range c.n {
				p := c.past + i
				b.Tokens, b.Positions = append(b.Tokens, int32((s*977+i*31)%128256)), append(b.Positions, int32(p))
				table.Slots = append(table.Slots, table.Pages[first+p/lim.PageSize]*int32(lim.PageSize)+int32(p%lim.PageSize))
			}
			b.LogitsIndices = append(b.LogitsIndices, int32(len(b.Tokens)-1))
			b.QStart, b.KVLen, b.RopeLen = append(b.QStart, int32(len(b.Tokens))), append(b.KVLen, int32(c.past+c.n)), append(b.RopeLen, int32(c.past+c.n))
		}
	}
	return b
}

// BenchmarkLlama8B prints what whole steps of Llama-3.1-8B with random weights take, in bf16, quantised to eight bits on load, and packed, beside
// what they must take at the ceilings measured on the same machine (see bench/h200.md).
func BenchmarkLlama8B(b *testing.B) {
	if _, err := Devices(); err != nil {
		b.Skipf("no GPU to measure: %v", err)
	}
	for _, f := range []quant.Format{quant.BF16, quant.Q4_0, quant.Q4_K, quant.MXFP4, quant.Q6_K, quant.Q8_0, quant.INT4, quant.BF16_2_4} {
		b.Run(f.String(), func(b *testing.B) { benchmarkLlama8B(b, f, quant.Invalid, pass.Inputs{}, graph.BF16, eightBillion) })
	}
	b.Run("llm.int8", func(b *testing.B) {
		benchmarkLlama8B(b, quant.BF16, quant.INT8, pass.OnLoadInputs("llm.int8"), graph.BF16, eightBillion)
	})
	for _, f := range []quant.Format{quant.FP8, quant.INT8, quant.INT4} {
		b.Run("quantised to "+f.String(), func(b *testing.B) { benchmarkLlama8B(b, quant.BF16, f, pass.Inputs{}, graph.BF16, eightBillion) })
	}
}

// BenchmarkCaches is the same with weights in four bits and keys and values in 16, 8 and 4, of which there are many.
func BenchmarkCaches(b *testing.B) {
	if _, err := Devices(); err != nil {
		b.Skipf("no GPU to measure: %v", err)
	}
	for _, cache := range []graph.Type{graph.F16, graph.I8, graph.I4} {
		b.Run(cache.String(), func(b *testing.B) {
			benchmarkLlama8B(b, quant.Q4_0, quant.Invalid, pass.Inputs{}, cache, [][]load{
				{{1, 128, 1}}, {{1, 8000, 1}}, {{8, 4000, 1}}, {{32, 4000, 1}}, {{64, 4000, 1}}, {{1, 0, 512}}, {{1, 0, 2048}}, {{1, 0, 8192}}, {{1, 6000, 2048}},
			})
		})
	}
}

// benchmarkLlama8B has all weights, the head's too, in a format, and quantises those of the layers to another one. Of a sparse format are those of the layers
// alone, as in files.
func benchmarkLlama8B(b *testing.B, stored, made quant.Format, inputs pass.Inputs, cache graph.Type, steps [][]load) {
	d, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	lookup := func(name string) (graph.Stored, bool) {
		s := graph.Stored{Format: stored, Recipe: recipe.Tensor(name)}
		if sparse := stored.Descriptor().Sparsity; sparse.Kept > 0 && (name == "embd" || name == "head") {
			s.Format = sparse.Values
		}
		return s, true
	}
	builder := graph.NewBuilder("llama 8B", lookup, graph.BF16, cache)
	g, err := builder.Finish(llama8B(builder, 32))
	if err != nil {
		b.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Weights: made, Inputs: inputs, Kernels: compile.Kernels{Device: d}}); err != nil {
		b.Fatal(err)
	}
	page := graph.PageTokens(cache)
	lim := backend.Limits{Tokens: 8192, Seqs: 256, Logits: 256, PageSize: page, Pages: 256 * 1100 / page, SeqPages: 8192 / page}
	printSteps(b, d, g, lim, steps)
}

// eightBillion is the steps whose times bench/h200.md has.
var eightBillion = [][]load{
	{{1, 128, 1}}, {{1, 4096, 1}}, {{2, 128, 1}}, {{4, 128, 1}}, {{8, 128, 1}}, {{16, 128, 1}}, {{32, 128, 1}}, {{32, 1024, 1}}, {{64, 1024, 1}}, {{128, 1024, 1}},
	{{256, 640, 1}}, {{256, 1024, 1}},
	{{1, 0, 128}}, {{1, 0, 512}}, {{1, 0, 2048}}, {{4, 0, 2048}}, {{1, 0, 8192}},
	{{255, 640, 1}, {1, 0, 512}}, {{252, 640, 1}, {3, 0, 512}, {1, 0, 256}}, // a server's: some read their prompts beside those that answer
}

// BenchmarkQwen35 is the same of Qwen3.5-9B in bf16, most of whose layers are of the gated delta rule.
func BenchmarkQwen35(b *testing.B) {
	if _, err := Devices(); err != nil {
		b.Skipf("no GPU to measure: %v", err)
	}
	d, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	m, err := model.Shape("qwen3.5-9b")
	if err != nil {
		b.Fatal(err)
	}
	lookup := func(name string) (graph.Stored, bool) {
		return graph.Stored{Format: quant.BF16, Recipe: recipe.Tensor(name)}, true
	}
	builder := graph.NewBuilder("qwen3.5 9B", lookup, graph.BF16, graph.BF16)
	g, err := builder.Finish(m.Arch.Build(builder, m.Config))
	if err != nil {
		b.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Kernels: compile.Kernels{Device: d}}); err != nil {
		b.Fatal(err)
	}
	lim := backend.Limits{Tokens: 8192, Seqs: 64, Logits: 64, PageSize: 16, Pages: 64 * 513, SeqPages: 513}
	lim.KeepAll(g)
	for i := range lim.Groups {
		if lim.Groups[i].Recurrent {
			lim.Groups[i].Pages = lim.Seqs
		}
	}
	printSteps(b, d, g, lim, [][]load{{{1, 128, 1}}, {{8, 128, 1}}, {{16, 128, 1}}, {{16, 4096, 1}}, {{64, 128, 1}}, {{1, 0, 512}}, {{1, 0, 2048}}, {{1, 0, 8192}}})
}

// printSteps prints what steps of a model with random weights take, and their launches by kind.
func printSteps(b *testing.B, d *Device, g *graph.Graph, lim backend.Limits, steps [][]load) {
	files := newNoise(b, g)
	start := time.Now()
	prog, err := compile.Compile(g, d, files, lim)
	if err != nil {
		b.Fatal(err)
	}
	defer prog.Close()
	row := make([]float32, prog.Vocab())
	fmt.Printf("compiled, %.1f GB of weights in %.2f s\n", float64(prog.Memory().Weights)/1e9, time.Since(start).Seconds())
	prompt := min(2048, lim.Tokens) // so that decoding steps find numbers in the cache: what lay in its memory before may be none
	if err := prog.Run(batchOf(lim, []load{{lim.Tokens / prompt, 0, prompt}})); err != nil {
		b.Fatal(err)
	}
	for _, loads := range steps {
		batch := batchOf(lim, loads)
		if err := batch.Check(lim, prog.Vocab()); err != nil {
			b.Fatal(err)
		}
		runs := 24
		if len(batch.Tokens) > batch.Seqs() {
			runs = 6
		}
		run := func(n int) (total, host time.Duration) {
			start := time.Now()
			for range n {
				if err := prog.Run(batch); err != nil {
					b.Fatal(err)
				}
			}
			host = time.Since(start)
			if err := prog.Logits(row, 0, 1); err != nil {
				b.Fatal(err)
			}
			return time.Since(start), host
		}
		run(2)
		total, host := run(runs)
		var step graph.Step
		batch.Step(&step)
		work, t := g.Work(&step), total.Seconds()/float64(runs)
		fmt.Printf("%v  %9.3f ms (host %7.3f)  %9.0f tok/s  %5.2f TB/s  %6.1f TFLOP/s\n", loads, t*1e3, host.Seconds()/float64(runs)*1e3,
			float64(len(batch.Tokens))/t, float64(work.Bytes())/t/1e12, float64(work.FLOPs)/t/1e12)
		if loads[0].past < 1024 {
			printKinds(b, d, batch)
		}
	}
}

// printKinds prints what all layers' launches of each kind take together, recorded as one graph and replayed.
func printKinds(b *testing.B, d *Device, batch *backend.Batch) {
	kinds, order := map[string][]*launch{}, []string(nil)
	for first, list := range d.steps.ready { // the one program's
		for _, l := range list {
			name := strings.TrimPrefix(l.text, "blk.")
			if _, of, ok := strings.Cut(name, "."); ok {
				name = of
			}
			if kinds[name] == nil {
				order = append(order, name)
			}
			kinds[name] = append(kinds[name], l)
		}
		if err := d.do(func() error {
			return d.stepWith(unsafe.Slice(first, 1), batch, func(_ []*launch, s *step) error {
				for _, name := range order {
					took, err := d.replays(kinds[name], s)
					if err != nil {
						return err
					}
					fmt.Printf("        %8.3f ms  %d × %s\n", took.Seconds()*1e3, len(kinds[name]), name)
				}
				return nil
			})
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// replays is what one replay of the launches takes.
func (d *Device) replays(list []*launch, s *step) (time.Duration, error) {
	const runs = 10
	g, err := d.stream.Capture(func() error { return put(list, s) })
	if err != nil {
		return 0, err
	}
	defer g.Close()
	took, err := d.fastest(func() error {
		for range runs {
			if err := d.stream.Replay(g); err != nil {
				return err
			}
		}
		return nil
	})
	return took / runs, err
}
