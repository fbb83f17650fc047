package recurrent

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// TestMirrors; what the kernels compute is tested by the op table (backend/cuda/device_test.go).
func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "recurrent/causal_conv", map[string]uintptr{"conv_": unsafe.Sizeof(ConvParams{})})
	gputest.Mirrors(t, "recurrent/gated_delta", map[string]uintptr{"gated_delta_": unsafe.Sizeof(DeltaParams{})})
	gputest.Mirrors(t, "recurrent/gated_delta_step", map[string]uintptr{"gated_delta_step_": unsafe.Sizeof(DeltaParams{})})
	gputest.Mirrors(t, "recurrent/gated_delta_chunks", map[string]uintptr{"gated_delta_": unsafe.Sizeof(chunksParams{})})
	gputest.Mirrors(t, "recurrent/ssd", map[string]uintptr{"ssd_": unsafe.Sizeof(SSDParams{})})
	gputest.Mirrors(t, "recurrent/selective_scan", map[string]uintptr{"scan_": unsafe.Sizeof(ScanParams{})})
}

// BenchmarkGatedDelta is a layer of Qwen3.5-9B (16 key heads and 32 value heads of 128): steps of decoding, whose states are far larger than the L2 cache,
// beside what reading and writing these takes, and prompts, beside the work of going token by token and that of chunks of 64.
func BenchmarkGatedDelta(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, c := range []struct{ seqs, tokens int }{{1, 1}, {8, 1}, {64, 1}, {256, 1}, {1, 512}, {1, 8192}, {8, 1024}, {4, 8192}} {
			g.Scope(func() { benchmarkDelta(g, c.seqs, c.tokens) })
		}
	})
}

func benchmarkDelta(g *gputest.GPU, seqs, tokens int) {
	const keyHeads, valueHeads, size, chunk = 16, 32, 128, 64
	rows, state := seqs*tokens, valueHeads*size*size*4
	step, _ := g.Step(gputest.Workload{Seqs: seqs, Length: tokens + 1, New: tokens, Page: tokens + 1}) // a page is a state
	p := &DeltaParams{
		Step: step, X: g.Noise(rows * (2*keyHeads + valueHeads) * size * 2), Alpha: g.Noise(rows * valueHeads * 2), Beta: g.Noise(rows * valueHeads * 2),
		Y: g.Poisoned(rows * valueHeads * size * 2), Decay: g.F32(negative(valueHeads)), Bias: g.Zeros(4 * valueHeads),
		KeyHeads: keyHeads, KeySize: size, ValueHeads: valueHeads, ValueSize: size, Scale: 0.088,
	}
	copies := max(1, 256<<20/(seqs*state)+1)
	var states []DeltaParams
	for range copies {
		one := *p
		one.States = g.Zeros(seqs * state)
		states = append(states, one)
	}
	k, err := NewDelta(g.Loader, graph.BF16, size, size, true)
	g.Must(err)
	scratch := g.Poisoned(int(DeltaScratch(rows, seqs, valueHeads)))
	d := g.Time(func(run int) error { return k.Launch(g.Stream, rows, seqs, false, &states[run%copies], scratch) }).Seconds()
	bytes := 2*float64(seqs*state) + float64(rows*((2*keyHeads+2*valueHeads)*size+2*valueHeads)*2)
	flops := float64(rows*valueHeads) * (3*2*size*size + 2*chunk*size*2.5) // a chunk's products with the state, and those within it
	fmt.Printf("gated delta %3d × %5d: %9.1f µs  %5.2f TB/s  %6.1f TFLOP/s\n", seqs, tokens, d*1e6, bytes/d/1e12, flops/d/1e12)
}

func negative(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = -0.1
	}
	return x
}
