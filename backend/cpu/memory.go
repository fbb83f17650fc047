package cpu

import (
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/hostmem"
)

// memory is a piece of main memory outside the Go heap. It starts on a page, and so on a cache line.
type memory struct {
	bytes  []byte
	shared bool // with other processes: of package hostmem
}

// newMemory is n bytes of zeroes, of which the first `small` are not to be in large pages.
func newMemory(n, small int64) (*memory, error) {
	data, err := mapMemory(n, small)
	return &memory{bytes: data}, err
}

// free gives the memory back; nothing may use it any more.
func (m *memory) free() error {
	data := m.bytes
	m.bytes = nil
	if m.shared {
		return hostmem.Free(data)
	}
	return unmapMemory(data)
}

// raw is a buffer's bytes.
func raw(b backend.Buffer) []byte {
	if b.Len == 0 {
		return nil
	}
	return b.Mem.(*memory).bytes[b.Off : b.Off+b.Len]
}

// floats is a buffer's bytes as F32.
func floats(b backend.Buffer) []float32 { return as[float32](raw(b)) }

// as is bytes as numbers.
func as[T float32 | uint16 | int32 | backend.Scored](b []byte) []T {
	var one T
	n := len(b) / int(unsafe.Sizeof(one))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// uint16s is a buffer's bytes as 16-bit numbers.
func uint16s(b backend.Buffer) []uint16 { return as[uint16](raw(b)) }

// rows is how many rows a node's first output has in a batch.
func rows(n *graph.Node, b *backend.Batch) int { return b.Rows(n.Out[0].Rows) }
