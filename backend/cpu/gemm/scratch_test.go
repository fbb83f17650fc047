package gemm

import (
	"testing"
	"unsafe"
)

// What a goroutine writes all the time must not share a cache line with another's, wherever the heap puts them (lore 150).
func TestScratchHasItsCacheLines(t *testing.T) {
	var s Scratch
	line := unsafe.Sizeof(cacheLine{})
	if at := unsafe.Offsetof(s.bPanel); at < line {
		t.Errorf("the first field is %d bytes from the Scratch's start, less than a cache line", at)
	}
	if end := unsafe.Offsetof(s.prefetch) + unsafe.Sizeof(s.prefetch); unsafe.Sizeof(s)-end < line {
		t.Errorf("prefetch ends %d bytes before the Scratch does, less than a cache line", unsafe.Sizeof(s)-end)
	}
}
