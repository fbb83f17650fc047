//go:build !linux

package hostmem

import (
	"os"
	"unsafe"
)

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Alloc has ErrUnsupported.
func Alloc(int64) ([]byte, error) { return nil, ErrUnsupported }

// Free has nothing to give back.
func Free([]byte) error { return nil }

// Open has ErrUnsupported.
func Open() (*os.File, error) { return nil, ErrUnsupported }

// Map has ErrUnsupported.
func Map(*os.File) (*View, error) { return nil, ErrUnsupported }

// Close has nothing to do.
func (v *View) Close() error { return nil }
