package dfa

import (
	"runtime"
	"testing"
)

// TestDoubled: a list of many elements takes no more than four times its memory to grow; with append it is more than five times.
func TestDoubled(t *testing.T) {
	const n = 1 << 17
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var list []int64
	for i := range int64(n) {
		list = append(doubled(list), i)
	}
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 8*4*n || int64(len(list)) != n || list[n-1] != n-1 {
		t.Errorf("%d bytes for a list of %d", bytes, 8*n)
	}
}
