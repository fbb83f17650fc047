package driver

import (
	"runtime"
	"unsafe"
)

// Context is a GPU in use: its primary context, which other libraries of the process share.
type Context struct {
	Device
	handle uintptr
}

// Open retains the GPU's primary context.
func (dev Device) Open() (*Context, error) {
	handle := new(uintptr)
	err := dev.driver.call("opening the GPU "+dev.Name, cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(handle)), uintptr(dev.handle))
	if err != nil {
		return nil, err
	}
	return &Context{Device: dev, handle: *handle}, nil
}

// Do runs f with the context current on this goroutine's thread, locked for that long. Calls may nest.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.driver.call("making the GPU current", cuCtxSetCurrent, c.handle); err != nil {
		return err
	}
	return f()
}

// Synchronize waits for everything in the context. A kernel fault is reported here; the context is lost after one.
func (c *Context) Synchronize() error {
	return c.driver.call("waiting for the GPU", cuCtxSynchronize)
}

// Close releases the context. Memory, streams and kernels of it must not be used again.
func (c *Context) Close() error {
	return c.driver.call("closing the GPU", cuDevicePrimaryCtxRelease, uintptr(c.Device.handle))
}
