// Package hostmem is memory of this process that other processes of the host can map and read, each byte at the same place of one file that has no name (memfd_create).
package hostmem

import (
	"errors"
	"slices"
	"sync"
)

// ErrUnsupported is the error of systems without such files.
var ErrUnsupported = errors.New("hostmem: memory that other processes can map is there on Linux alone")

// pieces is what Alloc has given, by address.
var pieces struct {
	sync.RWMutex
	list []piece
}

// piece is n bytes at an address, and their place in the file.
type piece struct {
	start uintptr
	n     int64
	at    int64
}

// At is the place in the file of bytes that Alloc gave, or a part of them; false of other memory.
func At(b []byte) (at int64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	pieces.RLock()
	defer pieces.RUnlock()
	start := address(b)
	i, found := slices.BinarySearchFunc(pieces.list, start, byStart)
	if !found {
		i--
	}
	if i < 0 {
		return 0, false
	}
	p := pieces.list[i]
	if in := int64(start - p.start); in+int64(len(b)) <= p.n {
		return p.at + in, true
	}
	return 0, false
}

func byStart(p piece, start uintptr) int {
	switch {
	case p.start < start:
		return -1
	case p.start > start:
		return 1
	}
	return 0
}

// View is another process's memory, mapped to be read.
type View struct{ mem []byte }

// Bytes is n bytes at a place; nil if they are not there.
func (v *View) Bytes(at int64, n int) []byte {
	if n < 0 || at < 0 || at > int64(len(v.mem))-int64(n) {
		return nil
	}
	return v.mem[at : at+int64(n)]
}
