package cpu

import (
	"os"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
)

// Prefault implements backend.Prefaulter. Where the system does not know how, the first step that writes to the memory finds its place.
func (d *Device) Prefault(b backend.Buffer) { placeMemory(wholePages(raw(b))) }

// wholePages is the part of some memory that is whole pages of the system's.
func wholePages(data []byte) []byte {
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(data)))) & (page - 1)
	if skip >= len(data) {
		return nil
	}
	data = data[skip:]
	return data[:len(data)&^(page-1)]
}
