package main

import "testing"

// TestCollectPercent: a small heap may grow to five times what is in use, a large one is collected as Go does by default.
func TestCollectPercent(t *testing.T) {
	for inUse, want := range map[uint64]int{0: 400, 20 << 20: 400, 128 << 20: 200, 1 << 30: 100} {
		if got := collectPercent(inUse); got != want {
			t.Errorf("of %d bytes in use: %d %%, want %d %%", inUse, got, want)
		}
	}
}
