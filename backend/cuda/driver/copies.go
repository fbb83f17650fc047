package driver

import "unsafe"

// Copies is a list of copies between device memory and pinned host memory, or inside either, that are queued together: destinations,
// sources and sizes in bytes.
type Copies struct {
	to, from []Ptr
	bytes    []uint64
	group    copyGroup
}

// copyGroup is the attributes of all copies of a list for cuMemcpyBatchAsync. The layout of attributes is CUmemcpyAttributes'.
type copyGroup struct {
	attributes struct {
		order    int32    // 1: sources are read when the stream comes to them
		from, to [2]int32 // location hints for managed memory; unused
		flags    uint32
	}
	first, failed uint64
}

// Add adds a copy of n bytes.
func (c *Copies) Add(to, from Ptr, n int64) {
	c.to, c.from, c.bytes = append(c.to, to), append(c.from, from), append(c.bytes, uint64(n))
}

// Clear removes all copies and keeps the memory of the list.
func (c *Copies) Clear() { c.to, c.from, c.bytes = c.to[:0], c.from[:0], c.bytes[:0] }

// Host is the address of pinned host memory, which a GPU shares with the host.
func Host(b []byte) Ptr { return Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// CopyAll puts all copies on the stream, in no order among themselves, with one call where the driver has it: separate calls take the
// host 3 µs each, longer than the copy of a page of the cache.
func (s *Stream) CopyAll(c *Copies) error {
	if len(c.to) == 0 {
		return nil
	}
	if s.ctx.driver.fn[cuMemcpyBatchAsync] == 0 {
		for i := range c.to {
			if err := s.ctx.driver.call("copying", cuMemcpyAsync, uintptr(c.to[i]), uintptr(c.from[i]), uintptr(c.bytes[i]), s.handle); err != nil {
				return err
			}
		}
		return nil
	}
	c.group.attributes.order = 1
	return s.ctx.driver.call("copying", cuMemcpyBatchAsync, uintptr(unsafe.Pointer(&c.to[0])), uintptr(unsafe.Pointer(&c.from[0])), uintptr(unsafe.Pointer(&c.bytes[0])),
		uintptr(len(c.to)), uintptr(unsafe.Pointer(&c.group.attributes)), uintptr(unsafe.Pointer(&c.group.first)), 1, uintptr(unsafe.Pointer(&c.group.failed)), s.handle)
}
