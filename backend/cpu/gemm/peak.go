package gemm

import (
	"encoding/binary"
	"runtime"
	"time"
)

// peakLoop issues one instruction over and over: call(n) does n × ops operations, a multiply and an add being two.
type peakLoop struct {
	call func(n int)
	ops  int
}

// Peak measures, for about the given time, how many operations a second one core can do on activations of a format: the
// limit of the kernels that take them. It is 0 for the generic tier, whose limit is the Go compiler.
func Peak(tier Tier, f ActFormat, span time.Duration) float64 {
	loop := tier.kernels().peaks[f]
	if loop.call == nil {
		return 0
	}
	const n = 2000
	best, end := time.Hour, time.Now().Add(span)
	for start := time.Now(); start.Before(end); {
		loop.call(n)
		now := time.Now()
		best, start = min(best, now.Sub(start)), now
	}
	return float64(n*loop.ops) / best.Seconds()
}

// PeakRead measures how many bytes a second one core reads, once through data; data should be larger than the caches.
func PeakRead(tier Tier, data []byte) float64 {
	start := time.Now()
	tier.kernels().read(&data[0], len(data)/512*8)
	return float64(len(data)/512*512) / time.Since(start).Seconds()
}

// readGeneric reads cache lines of 64 bytes.
func readGeneric(p *byte, lines int) {
	var sum uint64
	for b := bytesAt(p, 64*lines); len(b) > 0; b = b[64:] {
		for i := 0; i < 64; i += 8 {
			sum += binary.LittleEndian.Uint64(b[i:])
		}
	}
	runtime.KeepAlive(sum)
}
