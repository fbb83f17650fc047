package driver

import (
	"unsafe"

	"github.com/ridge-llm/ridge/internal/size"
)

// Ptr is an address in device memory, 256-byte aligned as Alloc returns it.
type Ptr uint64

// MemInfo returns the free and total bytes of device memory; other processes' use counts against free.
func (c *Context) MemInfo() (free, total int64, err error) {
	pair := new([2]uint64)
	err = c.driver.call("querying the free memory", cuMemGetInfo, uintptr(unsafe.Pointer(&pair[0])), uintptr(unsafe.Pointer(&pair[1])))
	return int64(pair[0]), int64(pair[1]), err
}

// Alloc takes n bytes of device memory. Their contents are undefined until written.
func (c *Context) Alloc(n int64) (Ptr, error) {
	p := new(Ptr)
	err := c.driver.call("allocating "+size.Text(n)+" of device memory", cuMemAlloc, uintptr(unsafe.Pointer(p)), uintptr(max(n, 1)))
	return *p, err
}

// Free frees memory of Alloc; it waits for the device. Freeing 0 does nothing.
func (c *Context) Free(p Ptr) error {
	return c.driver.call("freeing device memory", cuMemFree, uintptr(p))
}

// AllocHost takes n bytes of pinned host memory, which the GPU's copy engines (DMA) read and write at full speed
// and asynchronously. It is not garbage collected: free it with FreeHost.
func (c *Context) AllocHost(n int) ([]byte, error) {
	p := new(unsafe.Pointer)
	err := c.driver.call("allocating "+size.Text(int64(n))+" of pinned host memory", cuMemHostAlloc, uintptr(unsafe.Pointer(p)), uintptr(max(n, 1)), 0)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(*p), n), nil
}

// FreeHost frees a slice of AllocHost, which must start at the same address.
func (c *Context) FreeHost(b []byte) error {
	return c.driver.call("freeing pinned host memory", cuMemFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
