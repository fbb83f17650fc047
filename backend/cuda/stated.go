package cuda

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
)

// perClock is what a multiprocessor computes in a clock, FLOP: with bf16 on the tensor cores, dense with float32 sums, and in float32. Of GeForce boards the
// tensor cores reach half of that. From the tuning guides and architecture papers of NVIDIA for compute capability 8.0 (A100), 8.6 to 8.9
// (A40, L40S), 9.0 (H100), 10.0 (B200) and 12.0.
func perClock(major, minor int) (bf16, f32 float64) {
	switch {
	case major >= 12:
		return 1024, 256
	case major >= 10:
		return 8192, 256
	case major == 9:
		return 4096, 256
	case minor > 0:
		return 1024, 256
	}
	return 2048, 128
}

// statedPeaks is a GPU's peaks by its highest clocks, of which bandwidth and rates under load stay 10 to 20 % short.
func statedPeaks(d *driver.Device) (p backend.Peaks) {
	bf16, f32 := perClock(d.Major, d.Minor)
	clocks := d.Clock * float64(d.SMs)
	p.Read, p.BF16, p.F32 = d.ReadRate, bf16*clocks, f32*clocks
	if d.Major >= 9 {
		p.Int8, p.FP8 = 2*p.BF16, 2*p.BF16
	}
	return p
}
