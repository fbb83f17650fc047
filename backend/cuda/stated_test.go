package cuda

import (
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
)

// TestStatedPeaks: from a board's clocks come its published rates, which are of clocks a few per cent below the highest.
func TestStatedPeaks(t *testing.T) {
	for _, x := range []struct {
		name       string
		d          driver.Device
		bf16, read float64
	}{
		{"A100 SXM 80 GB", driver.Device{Major: 8, SMs: 108, Clock: 1.41e9, ReadRate: 2 * 1.593e9 * 640}, 312e12, 2.039e12},
		{"L40S", driver.Device{Major: 8, Minor: 9, SMs: 142, Clock: 2.52e9, ReadRate: 2 * 9.001e9 * 48}, 362e12, 864e9},
		{"H200", driver.Device{Major: 9, SMs: 132, Clock: 1.98e9, ReadRate: 2 * 3.201e9 * 768}, 989e12, 4.8e12},
	} {
		p := statedPeaks(&x.d)
		if math.Abs(p.BF16/x.bf16-1) > 0.1 || math.Abs(p.Read/x.read-1) > 0.03 {
			t.Errorf("%s states %.3g FLOP/s and %.3g bytes/s; published are %.3g and %.3g", x.name, p.BF16, p.Read, x.bf16, x.read)
		}
	}
}
