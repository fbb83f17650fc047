package recurrent

import (
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
)

// TestMirrors; what the kernels compute is tested by the op table (backend/cuda/device_test.go).
func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "recurrent/causal_conv", map[string]uintptr{"conv_": unsafe.Sizeof(ConvParams{})})
	delta := map[string]uintptr{"gated_delta_": unsafe.Sizeof(DeltaParams{}), "kimi_delta_": unsafe.Sizeof(DeltaParams{})}
	gputest.Mirrors(t, "recurrent/gated_delta", delta)
	gputest.Mirrors(t, "recurrent/gated_delta_step", delta)
	gputest.Mirrors(t, "recurrent/gated_delta_chunks", map[string]uintptr{"gated_delta_": unsafe.Sizeof(deltaChunksParams{})})
	gputest.Mirrors(t, "recurrent/kimi_delta_chunks", map[string]uintptr{"kimi_delta_": unsafe.Sizeof(deltaChunksParams{})})
	gputest.Mirrors(t, "recurrent/ssd", map[string]uintptr{"ssd_": unsafe.Sizeof(SSDParams{})})
	gputest.Mirrors(t, "recurrent/ssd_chunks", map[string]uintptr{"ssd_": unsafe.Sizeof(ssdChunksParams{})})
	gputest.Mirrors(t, "recurrent/selective_scan", map[string]uintptr{"scan_": unsafe.Sizeof(ScanParams{})})
}

func negative(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = -0.1
	}
	return x
}
