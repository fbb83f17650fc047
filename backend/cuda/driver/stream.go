package driver

import "unsafe"

// Stream is a queue of work on a GPU, done in order. One goroutine at a time may put work on it.
type Stream struct {
	ctx    *Context
	handle uintptr
	launch *launch
	// Overlap lets each kernel start while the one before it still runs. Every kernel launched must then wait with
	// griddepcontrol.wait before it reads or writes what another kernel touches (sm_90).
	Overlap bool
}

const streamNonBlocking = 1 // no hidden ordering with the default stream

// NewStream makes a stream that runs concurrently with all others.
func (c *Context) NewStream() (*Stream, error) {
	s := &Stream{ctx: c, launch: new(launch)}
	return s, c.driver.call("making a stream", cuStreamCreate, uintptr(unsafe.Pointer(&s.handle)), streamNonBlocking)
}

// Handle is the stream as libraries on top of CUDA take it.
func (s *Stream) Handle() uintptr { return s.handle }

// Close destroys the stream once its work is done.
func (s *Stream) Close() error {
	return s.ctx.driver.call("closing a stream", cuStreamDestroy, s.handle)
}

// Synchronize waits for the stream's work and reports a fault in any of it.
func (s *Stream) Synchronize() error {
	return s.ctx.driver.call("waiting for the GPU's work", cuStreamSynchronize, s.handle)
}

// Upload copies host memory to the device. Pageable memory is staged before it returns; pinned memory (AllocHost) is
// read later, so it must stay as it is until the stream has passed this point.
func (s *Stream) Upload(to Ptr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return s.ctx.driver.call("copying to the GPU", cuMemcpyHtoDAsync,
		uintptr(to), uintptr(unsafe.Pointer(&from[0])), uintptr(len(from)), s.handle)
}

// Download copies device memory to the host; the bytes are there once the stream has been synchronized.
func (s *Stream) Download(to []byte, from Ptr) error {
	if len(to) == 0 {
		return nil
	}
	return s.ctx.driver.call("copying from the GPU", cuMemcpyDtoHAsync,
		uintptr(unsafe.Pointer(&to[0])), uintptr(from), uintptr(len(to)), s.handle)
}

// Copy copies n bytes inside device memory.
func (s *Stream) Copy(to, from Ptr, n int64) error {
	return s.ctx.driver.call("copying on the GPU", cuMemcpyDtoDAsync, uintptr(to), uintptr(from), uintptr(n), s.handle)
}

// Fill sets n bytes of device memory to b.
func (s *Stream) Fill(to Ptr, b byte, n int64) error {
	return s.ctx.driver.call("filling memory on the GPU", cuMemsetD8Async, uintptr(to), uintptr(b), uintptr(n), s.handle)
}

// Wait holds this stream's later work until the event has happened.
func (s *Stream) Wait(e *Event) error {
	return s.ctx.driver.call("ordering two streams", cuStreamWaitEvent, s.handle, e.handle, 0)
}
