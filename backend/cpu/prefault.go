package cpu

import (
	"os"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
)

// Prefault implements backend.Prefaulter. On systems without MADV_POPULATE_WRITE it does nothing: the first step that writes to the memory takes the page faults.
func (d *Device) Prefault(b backend.Buffer) { placeMemory(wholePages(raw(b))) }

// wholePages is the whole system pages within data.
func wholePages(data []byte) []byte {
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(data)))) & (page - 1)
	if skip >= len(data) {
		return nil
	}
	data = data[skip:]
	return data[:len(data)&^(page-1)]
}
