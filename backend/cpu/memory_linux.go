package cpu

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func adviseLargePages(data []byte) {
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // advice: small pages serve as well, only slower
}

// placeMemory has the system allocate physical memory for whole pages, as writing to each would.
func placeMemory(pages []byte) {
	if len(pages) > 0 {
		_ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE) // advice, which kernels before 5.14 do not know
	}
}

// mapAhead maps what is about to be read of a file in one call, instead of by a page fault every sixteen pages. Pages that
// are not mapped cannot be prefetched either.
func mapAhead(data []byte) {
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(data)))) & (page - 1)
	if skip < len(data) {
		_ = unix.Madvise(data[skip:], unix.MADV_POPULATE_READ) // advice, which kernels before 5.14 do not know
	}
}
