package recurrent

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// TestMirrors; what the kernels compute is tested by the op table (backend/cuda/device_test.go).
func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "recurrent/causal_conv", map[string]uintptr{"conv_": unsafe.Sizeof(ConvParams{})})
	delta := map[string]uintptr{"gated_delta_": unsafe.Sizeof(DeltaParams{}), "kimi_delta_": unsafe.Sizeof(DeltaParams{})}
	gputest.Mirrors(t, "recurrent/gated_delta", delta)
	gputest.Mirrors(t, "recurrent/gated_delta_step", delta)
	gputest.Mirrors(t, "recurrent/gated_delta_step_sm90", map[string]uintptr{"gated_delta_": unsafe.Sizeof(DeltaParams{})})
	gputest.Mirrors(t, "recurrent/gated_delta_chunks", map[string]uintptr{"gated_delta_": unsafe.Sizeof(deltaChunksParams{})})
	gputest.Mirrors(t, "recurrent/kimi_delta_chunks", map[string]uintptr{"kimi_delta_": unsafe.Sizeof(deltaChunksParams{})})
	gputest.Mirrors(t, "recurrent/ssd", map[string]uintptr{"ssd_": unsafe.Sizeof(SSDParams{})})
	gputest.Mirrors(t, "recurrent/ssd_chunks", map[string]uintptr{"ssd_": unsafe.Sizeof(ssdChunksParams{})})
	gputest.Mirrors(t, "recurrent/selective_scan", map[string]uintptr{"scan_": unsafe.Sizeof(ScanParams{})})
}

// TestManyStates: the kernel for many sequences, which the op table is too small for, gives what the one for few gives, and leaves alone sequences that
// have several new tokens.
func TestManyStates(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, c := range []struct{ keySize, valueSize int }{{128, 128}, {64, 40}, {24, 128}} {
			g.Scope(func() { compareSteps(g, c.keySize, c.valueSize) })
		}
	})
}

func compareSteps(g *gputest.GPU, keySize, valueSize int) {
	const seqs, keyHeads, valueHeads = 70, 8, 16
	shape := DeltaShape{KeySize: keySize, ValueSize: valueSize}
	k, err := NewDelta(g.Loader, graph.BF16, shape, false)
	g.Must(err)
	if k.states == nil {
		g.Skip("the kernel for many states is one of Hopper's")
	}
	var qStart, kvLen, pages []int32
	rows := int32(0)
	for s := range int32(seqs) {
		qStart, kvLen, pages = append(qStart, rows), append(kvLen, 1+s%5), append(pages, seqs-1-s) // a fifth begins with this token
		if rows++; s%7 == 3 {
			rows++
		}
	}
	step, _ := g.Step(gputest.Workload{Seqs: seqs, Length: 2, New: 1, Page: 2})
	step.QStart, step.KVLen, step.Pages = g.Ints(append(qStart, rows)...), g.Ints(kvLen...), g.Ints(pages...)
	width, size := 2*keyHeads*keySize+valueHeads*valueSize, keySize*valueSize
	p := DeltaParams{
		Step: step, Q: g.BF16(g.Random(int(rows)*width, 1)), Alpha: g.BF16(g.Random(int(rows)*valueHeads, 1)), Beta: g.BF16(g.Random(int(rows)*valueHeads, 1)),
		Decay: g.F32(negative(valueHeads)), Bias: g.F32(g.Random(valueHeads, 1)), KeyHeads: keyHeads, ValueHeads: valueHeads, KeySize: int32(keySize), ValueSize: int32(valueSize), Stride: int32(width), Scale: 0.1,
	}
	p.K, p.V = p.Q+driver.Ptr(2*keyHeads*keySize), p.Q+driver.Ptr(4*keyHeads*keySize)
	before := g.Random(seqs*valueHeads*size, 1)
	var results [2][]float32
	for i, sms := range []int{1 << 20, 7} { // the kernel for few; and that for many, with blocks that have many items
		p.States, p.Y = g.F32(before), g.Zeros(int(rows)*valueHeads*valueSize*2)
		k.sms = sms
		g.Must(k.launchStep(g.Stream, seqs, &p))
		results[i] = append(g.ReadF32(p.States, seqs*valueHeads*size), g.ReadBF16(p.Y, int(rows)*valueHeads*valueSize)...)
	}
	want := make([]float64, len(results[0]))
	for i, x := range results[0] {
		want[i] = float64(x)
	}
	if slices.Equal(results[0][:len(before)], before) {
		g.Error("no state has changed")
	}
	g.Near("states and rows", results[1], want, 1e-3)
}

func negative(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = -0.1
	}
	return x
}
