package recurrent

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
)

// TestMirrors; what the kernels compute is tested by the op table (backend/cuda/device_test.go).
func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "recurrent/causal_conv", map[string]uintptr{"conv_": unsafe.Sizeof(ConvParams{})})
	delta := map[string]uintptr{"gated_delta_": unsafe.Sizeof(DeltaParams{}), "kimi_delta_": unsafe.Sizeof(DeltaParams{})}
	gputest.Mirrors(t, "recurrent/gated_delta", delta)
	gputest.Mirrors(t, "recurrent/gated_delta_step", delta)
	gputest.Mirrors(t, "recurrent/gated_delta_chunks", map[string]uintptr{"gated_delta_": unsafe.Sizeof(deltaChunksParams{})})
	gputest.Mirrors(t, "recurrent/gated_delta_sm90", map[string]uintptr{"gated_delta_": unsafe.Sizeof(wideParams{})})
	gputest.Mirrors(t, "recurrent/kimi_delta_sm90", map[string]uintptr{"kimi_delta_": unsafe.Sizeof(kimiWideParams{})})
	gputest.Mirrors(t, "recurrent/kimi_delta_chunks", map[string]uintptr{"kimi_delta_": unsafe.Sizeof(deltaChunksParams{})})
	gputest.Mirrors(t, "recurrent/ssd", map[string]uintptr{"ssd_": unsafe.Sizeof(SSDParams{})})
	gputest.Mirrors(t, "recurrent/ssd_chunks", map[string]uintptr{"ssd_": unsafe.Sizeof(ssdChunksParams{})})
	gputest.Mirrors(t, "recurrent/selective_scan", map[string]uintptr{"scan_": unsafe.Sizeof(ScanParams{})})
}

// TestWide: the kernels for keys of 128 numbers come to what those for any keys come to, with a last chunk that is not whole; and in one launch, however many
// chunks are prepared before, to the same bits as in two.
func TestWide(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		if !g.Loader.Hopper() {
			g.Skip("the kernels are Hopper's")
		}
		tokens := 3000
		if testing.Short() {
			tokens = 700
		}
		const numbers = 32 * benchSize * benchSize
		for _, eachKey := range []bool{false, true} {
			shape := DeltaShape{KeySize: benchSize, ValueSize: benchSize, EachKey: eachKey}
			k, err := NewDelta(g.Loader, graph.BF16, shape, true)
			g.Must(err)
			any, err := newDelta(g.Loader, graph.BF16, shape, true, false)
			g.Must(err)
			p := benchDelta(g, 1, tokens, eachKey)[0]
			scratch := g.Poisoned(int(DeltaScratch(tokens, 1, 32, shape)))
			compute := func(launch func(p *DeltaParams) error) (y, states []float32) {
				p.Y, p.States = g.Poisoned(tokens*32*benchSize*2), g.Zeros(2*numbers*4)
				g.Must(launch(&p))
				return g.ReadBF16(p.Y, tokens*32*benchSize), g.ReadF32(p.States, numbers)
			}
			wide := func(x []float32) (y []float64) {
				for _, v := range x {
					y = append(y, float64(v))
				}
				return y
			}
			y, states := compute(func(p *DeltaParams) error { return k.wide.launchTwo(g.Stream, tokens, 1, p, scratch) })
			wantY, wantStates := compute(func(p *DeltaParams) error { return any.launchChunks(g.Stream, tokens, 1, p, scratch) })
			g.Near("rows", y, wide(wantY), 1e-2)
			g.Near("states", states, wide(wantStates), 1e-2)
			if eachKey {
				continue
			}
			for _, first := range []int{1, 2, 9} {
				bothY, bothStates := compute(func(p *DeltaParams) error { return k.wide.launchBoth(g.Stream, tokens, first, p, scratch) })
				if !slices.Equal(bothY, y) || !slices.Equal(bothStates, states) {
					t.Errorf("with %d chunks prepared before, what the layer gives, or its states, differ", first)
				}
			}
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
