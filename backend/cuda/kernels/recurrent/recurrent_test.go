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
	gputest.Mirrors(t, "recurrent/gated_delta_chunks", map[string]uintptr{
		"gated_delta_": unsafe.Sizeof(deltaChunksParams{}), "gated_delta_clear": unsafe.Sizeof(overlappedParams{}), "gated_delta_overlapped": unsafe.Sizeof(overlappedParams{}),
	})
	gputest.Mirrors(t, "recurrent/kimi_delta_chunks", map[string]uintptr{"kimi_delta_": unsafe.Sizeof(deltaChunksParams{})})
	gputest.Mirrors(t, "recurrent/ssd", map[string]uintptr{"ssd_": unsafe.Sizeof(SSDParams{})})
	gputest.Mirrors(t, "recurrent/ssd_chunks", map[string]uintptr{"ssd_": unsafe.Sizeof(ssdChunksParams{})})
	gputest.Mirrors(t, "recurrent/selective_scan", map[string]uintptr{"scan_": unsafe.Sizeof(ScanParams{})})
}

// TestOverlapped: chunks that are prepared while others are gone through come to the same bits as those that are prepared before.
func TestOverlapped(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		k, err := NewDelta(g.Loader, graph.BF16, DeltaShape{KeySize: benchSize, ValueSize: benchSize}, true)
		g.Must(err)
		if k.overlapped == nil {
			g.Skip("the kernel is one of Hopper's")
		}
		const tokens, numbers = 3000, 32 * benchSize * benchSize
		p := benchDelta(g, 1, tokens, false)[0]
		scratch := g.Poisoned(int(DeltaScratch(tokens, 1, 32, k.shape)))
		var y, states [2][]float32
		for i, launch := range []func(s *driver.Stream, tokens, seqs int, p *DeltaParams, scratch driver.Ptr) error{k.launchChunks, k.launchOverlapped} {
			p.Y, p.States = g.Poisoned(tokens*32*benchSize*2), g.Zeros(2*numbers*4)
			g.Must(launch(g.Stream, tokens, 1, &p, scratch))
			y[i], states[i] = g.ReadBF16(p.Y, tokens*32*benchSize), g.ReadF32(p.States, numbers)
		}
		if !slices.Equal(y[0], y[1]) || !slices.Equal(states[0], states[1]) {
			t.Error("what the layer gives, or its states, differ")
		}
	})
}

func negative(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = -0.1
	}
	return x
}
