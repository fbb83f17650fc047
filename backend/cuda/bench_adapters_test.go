package cuda

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// BenchmarkAdapters prints what steps of eight of Llama-3.1-8B's layers take with adapters of rank 16 on all their matrices, beside the same steps without, by turns:
// in bf16, and over packed weights and weights in eight bits. A step of 255 sequences that answer and one that reads its prompt is what a server has whose requests
// are 512 tokens and 256.
func BenchmarkAdapters(b *testing.B) {
	if _, err := Devices(); err != nil {
		b.Skipf("no GPU to measure: %v", err)
	}
	for _, c := range []struct{ stored, made quant.Format }{{quant.BF16, quant.Invalid}, {quant.Q4_0, quant.Invalid}, {quant.BF16, quant.INT8}} {
		b.Run(fmt.Sprint(c.stored, " ", c.made), func(b *testing.B) { benchmarkAdapters(b, c.stored, c.made) })
	}
}

func benchmarkAdapters(b *testing.B, stored, made quant.Format) {
	const slots, rank = 100, 16
	d, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	lookup := func(name string) (graph.Stored, bool) {
		return graph.Stored{Format: stored, Recipe: recipe.Tensor(name)}, true
	}
	builder := graph.NewBuilder("llama 8B", lookup, graph.BF16, graph.BF16)
	g, err := builder.Finish(llama8B(builder, 8))
	if err != nil {
		b.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Weights: made, Kernels: compile.Kernels{Device: d}, Adapters: pass.Adapters{Slots: slots, Rank: rank}}); err != nil {
		b.Fatal(err)
	}
	lim := backend.Limits{Tokens: 8192, Seqs: 256, Logits: 256, PageSize: 16, Pages: 256 * 1100 / 16, SeqPages: 8192 / 16, Adapters: slots}
	prog, err := compile.Compile(g, d, newNoise(b, g), lim)
	if err != nil {
		b.Fatal(err)
	}
	defer prog.Close()
	numbers := map[*graph.Weight]*graph.LowRank{}
	random := func(rows, cols int) quant.Tensor {
		return quant.Tensor{Format: quant.BF16, Rows: rows, Cols: cols, Data: bytes.Repeat([]byte{0x12, 0x3c, 0x93, 0xbb, 0x34, 0x3b, 0xd5, 0xbc}, rows*cols/4)}
	}
	for _, w := range prog.Slots() {
		if w.Tensor != "head" && !w.Slots.Table {
			numbers[w] = &graph.LowRank{A: random(rank, w.In.Len()), B: random(w.Out.Len(), rank), Scale: 1}
		}
	}
	for slot := range slots {
		if err := prog.SetAdapter(slot, func(w *graph.Weight) *graph.LowRank { return numbers[w] }, nil); err != nil {
			b.Fatal(err)
		}
	}
	row := make([]float32, prog.Vocab())
	if err := prog.Run(batchOf(lim, []load{{4, 0, 2048}})); err != nil { // so that decoding steps find numbers in the cache
		b.Fatal(err)
	}
	for _, c := range []struct {
		loads    []load
		adapters []int
	}{
		{[]load{{1, 640, 1}}, []int{1}},
		{[]load{{8, 640, 1}}, []int{8}},
		{[]load{{16, 640, 1}}, []int{1, 16}},
		{[]load{{64, 640, 1}}, []int{64}},
		{[]load{{256, 640, 1}}, []int{1, 16, 100}},
		{[]load{{255, 640, 1}, {1, 0, 512}}, []int{16, 100}},
		{[]load{{1, 0, 512}}, []int{1}},
		{[]load{{16, 0, 512}}, []int{1, 16}},
	} {
		timed := func(adapters int) float64 {
			batch := batchOf(lim, c.loads)
			for s := range batch.Seqs() {
				if adapters > 0 {
					batch.Adapters = append(batch.Adapters, backend.SeqAdapter{Seq: int32(s), Slot: int32(s * adapters / batch.Seqs()), Scale: 1, Rank: rank, Bytes: 2})
				}
			}
			if err := batch.Check(lim, prog.Vocab()); err != nil {
				b.Fatal(err)
			}
			runs := 24
			if len(batch.Tokens) > 256 {
				runs = 8
			}
			run := func(n int) time.Duration {
				start := time.Now()
				for range n {
					if err := prog.Run(batch); err != nil {
						b.Fatal(err)
					}
				}
				if err := prog.Logits(row, 0, 1); err != nil {
					b.Fatal(err)
				}
				return time.Since(start)
			}
			run(2)
			return min(run(runs), run(runs), run(runs)).Seconds() / float64(runs) * 1e3
		}
		for _, n := range c.adapters {
			base, with, again := timed(0), timed(n), timed(0)
			base = min(base, again)
			fmt.Printf("%v %v %v, %3d adapters: %8.3f ms, %8.3f without: %.3f; %.1f µs a layer more\n", stored, made, c.loads, n, with, base, base/with, (with-base)*1e3/8)
		}
	}
}
