package recurrent

import (
	"fmt"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

const benchSize = 128 // of keys and values

// benchDelta is a layer of Qwen3.5-9B (16 key heads and 32 value heads of 128), or of Kimi Linear (32 heads of 128), with states far larger than the L2
// cache: several parameters, each with other states.
func benchDelta(g *gputest.GPU, seqs, tokens int, eachKey bool) []DeltaParams {
	keyHeads, valueHeads := 16, 32
	rows, state := seqs*tokens, valueHeads*benchSize*benchSize*4
	step, _ := g.Step(gputest.Workload{Seqs: seqs, Length: tokens + 1, New: tokens, Page: tokens + 1}) // a page is a state
	p := DeltaParams{Step: step, Tiled: 0, Scale: 0.088, Beta: g.Noise(rows * valueHeads * 2), Y: g.Poisoned(rows * valueHeads * benchSize * 2), Decay: g.F32(negative(valueHeads))}
	if eachKey {
		keyHeads = valueHeads
		p.Q, p.K, p.V = g.Noise(rows*valueHeads*benchSize*2), g.Noise(rows*valueHeads*benchSize*2), g.Noise(rows*valueHeads*benchSize*2)
		p.Alpha, p.Bias, p.Stride = g.Noise(rows*valueHeads*benchSize*2), g.Zeros(4*valueHeads*benchSize), int32(valueHeads*benchSize)
	} else {
		p.Stride = int32((2*keyHeads + valueHeads) * benchSize)
		p.Q, p.Alpha, p.Bias = g.Noise(rows*int(p.Stride)*2), g.Noise(rows*valueHeads*2), g.Zeros(4*valueHeads)
		p.K, p.V = p.Q+driver.Ptr(2*keyHeads*benchSize), p.Q+driver.Ptr(4*keyHeads*benchSize)
	}
	p.KeyHeads, p.KeySize, p.ValueHeads, p.ValueSize = int32(keyHeads), benchSize, int32(valueHeads), benchSize
	var all []DeltaParams
	for range max(1, 256<<20/(seqs*state)+1) {
		p.States = g.Zeros(seqs * state)
		all = append(all, p)
	}
	return all
}

// BenchmarkDeltaStep is steps of decoding, beside what reading and writing the states takes.
func BenchmarkDeltaStep(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, eachKey := range []bool{false, true} {
			k, err := NewDelta(g.Loader, graph.BF16, DeltaShape{KeySize: benchSize, ValueSize: benchSize, EachKey: eachKey}, true)
			g.Must(err)
			for _, seqs := range []int{1, 8, 64, 256} {
				g.Scope(func() {
					all := benchDelta(g, seqs, 1, eachKey)
					d := g.Time(func(run int) error { return k.launchStep(g.Stream, seqs, &all[run%len(all)]) }).Seconds()
					bytes := 2 * float64(seqs*32*benchSize*benchSize*4)
					fmt.Printf("delta step, each key %-5t %3d seqs: %8.1f µs  %5.2f TB/s  %s\n", eachKey, seqs, d*1e6, bytes/d/1e12, g.Registers(k.step))
				})
			}
		}
	})
}

// BenchmarkGatedDelta is prompts, beside the work of chunks of 64: their preparation, and going through them.
func BenchmarkGatedDelta(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, eachKey := range []bool{false, true} {
			for _, c := range []struct{ seqs, tokens int }{{1, 512}, {1, 2048}, {1, 4096}, {1, 8192}, {8, 1024}, {4, 8192}} {
				g.Scope(func() { benchmarkPrompts(g, c.seqs, c.tokens, eachKey) })
			}
		}
	})
}

func benchmarkPrompts(g *gputest.GPU, seqs, tokens int, eachKey bool) {
	shape := DeltaShape{KeySize: benchSize, ValueSize: benchSize, EachKey: eachKey}
	all, rows := benchDelta(g, seqs, tokens, eachKey), seqs*tokens
	scratch := g.Poisoned(int(DeltaScratch(rows, seqs, 32, shape)))
	flops := float64(rows*32) * (3*2*benchSize*benchSize + 2*chunk*benchSize*2.5) // a chunk's products with the state, and those within it
	report := func(name string, kernel *driver.Kernel, launch func(p *DeltaParams) error) {
		d := g.Time(func(run int) error { return launch(&all[run%len(all)]) }).Seconds()
		fmt.Printf("delta prompts, each key %-5t %-12s %d × %5d: %9.1f µs  %6.1f TFLOP/s  %s\n", eachKey, name, seqs, tokens, d*1e6, flops/d/1e12, g.Registers(kernel))
	}
	any, err := newDelta(g.Loader, graph.BF16, shape, true, false)
	g.Must(err)
	report("any keys", any.chunks, func(p *DeltaParams) error { return any.launchChunks(g.Stream, rows, seqs, p, scratch) })
	_, threads, shared := shape.prepared()
	report("prepare", any.prepare, func(p *DeltaParams) error {
		return driver.Launch(g.Stream, any.prepare, driver.Grid{X: slots(rows, seqs), Y: int(p.KeyHeads), Threads: threads, Shared: shared}, &deltaChunksParams{*p, scratch})
	})
	if !g.Loader.Hopper() {
		return
	}
	w, err := newWideDelta(g.Loader, shape)
	g.Must(err)
	report("wide", w.chunks, func(p *DeltaParams) error { return w.launch(g.Stream, rows, seqs, p, scratch) })
	report("in two", w.chunks, func(p *DeltaParams) error { return w.launchTwo(g.Stream, rows, seqs, p, scratch) })
	if eachKey {
		return
	}
	report("prepare", w.prepare, func(p *DeltaParams) error {
		c := w.params(rows, seqs, p, scratch)
		return driver.Launch(g.Stream, w.prepare, driver.Grid{X: int(c.Slots), Y: int(p.KeyHeads * c.Pairs), Threads: 128, Shared: wideHeads}, c)
	})
	report("go through", w.chunks, func(p *DeltaParams) error {
		return driver.Launch(g.Stream, w.chunks, w.grid(seqs, p, wideStages), w.params(rows, seqs, p, scratch))
	})
}

// BenchmarkSSD is a layer of Nemotron 3 Nano (64 heads of 64 with states of 128, 8 groups): prompts in chunks and token by token, and decoding.
func BenchmarkSSD(b *testing.B) {
	const heads, size, state, groups = 64, 64, 128, 8
	gputest.Run(b, func(g *gputest.GPU) {
		for _, c := range []struct{ seqs, tokens int }{{64, 1}, {256, 1}, {1, 512}, {1, 8192}, {8, 1024}} {
			g.Scope(func() {
				rows, width := c.seqs*c.tokens, heads*size+2*groups*state
				step, _ := g.Step(gputest.Workload{Seqs: c.seqs, Length: c.tokens + 1, New: c.tokens, Page: c.tokens + 1})
				p := &SSDParams{
					Step: step, X: g.Noise(rows * width * 2), DT: g.Noise(rows * heads * 2), Y: g.Poisoned(rows * heads * size * 2), States: g.Zeros(c.seqs * heads * size * state * 4),
					Decay: g.F32(negative(heads)), Bias: g.Zeros(4 * heads), Skip: g.Zeros(4 * heads), Heads: heads, HeadSize: size, Groups: groups, StateSize: state, MaxStep: 1e30,
				}
				scratch := g.Poisoned(int(SSDScratch(rows, c.seqs, heads)))
				for _, chunked := range []bool{false, true} {
					k, err := NewSSD(g.Loader, graph.BF16, state, chunked)
					g.Must(err)
					d := g.Time(func(int) error { return k.Launch(g.Stream, rows, c.seqs, false, p, scratch) }).Seconds()
					bytes := 2*float64(c.seqs*heads*size*state*4) + 2*float64(rows*(width+heads*size))
					flops := float64(rows*heads) * (2*2*size*state + 2*chunk*size)
					if chunked {
						fmt.Printf("ssd prepare %s; chunks %s\n", g.Registers(k.prepare), g.Registers(k.chunks))
					}
					fmt.Printf("ssd, chunks %-5t %3d × %5d: %9.1f µs  %5.2f TB/s  %6.1f TFLOP/s\n", chunked, c.seqs, c.tokens, d*1e6, bytes/d/1e12, flops/d/1e12)
				}
			})
		}
	})
}

// BenchmarkScan is a layer of Falcon Mamba 7B (8192 channels with states of 16), beside what its exponentials take at 16 a cycle and multiprocessor.
func BenchmarkScan(b *testing.B) {
	const inner, size = 8192, 16
	gputest.Run(b, func(g *gputest.GPU) {
		k, err := NewScan(g.Loader, graph.BF16)
		g.Must(err)
		for _, c := range []struct{ seqs, tokens int }{{1, 1}, {64, 1}, {1, 512}, {1, 8192}, {8, 1024}} {
			g.Scope(func() {
				rows := c.seqs * c.tokens
				step, _ := g.Step(gputest.Workload{Seqs: c.seqs, Length: c.tokens + 1, New: c.tokens, Page: c.tokens + 1})
				p := &ScanParams{
					Step: step, X: g.Noise(rows * inner * 2), DT: g.Noise(rows * inner * 2), In: g.Noise(rows * size * 2), Read: g.Noise(rows * size * 2), Y: g.Poisoned(rows * inner * 2),
					States: g.Zeros(c.seqs * inner * size * 4), Decay: g.F32(negative(inner * size)), Skip: g.Zeros(4 * inner), Inner: inner, Size: size,
				}
				d := g.Time(func(int) error { return k.Launch(g.Stream, rows, c.seqs, p) }).Seconds()
				limit := float64(rows*inner*size) / (16 * float64(g.Loader.SMs()) * 1.7e9)
				bytes := 2*float64(c.seqs*inner*size*4) + 3*2*float64(rows*inner)
				fmt.Printf("selective scan %3d × %5d: %9.1f µs, exponentials %7.1f µs  %5.2f TB/s  %s\n", c.seqs, c.tokens, d*1e6, limit*1e6, bytes/d/1e12, g.Registers(k.tokens))
			})
		}
	})
}
