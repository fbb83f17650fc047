package driver

import (
	"time"
	"unsafe"
)

// Event is a CUDA event: the host or another stream can wait for it, and the time between two can be measured.
type Event struct {
	ctx    *Context
	handle uintptr
}

// NewEvent makes an event that records the device's time.
func (c *Context) NewEvent() (*Event, error) {
	e := &Event{ctx: c}
	return e, c.driver.call("making an event", cuEventCreate, uintptr(unsafe.Pointer(&e.handle)), 0)
}

// Record records the event after all work queued on the stream so far.
func (s *Stream) Record(e *Event) error {
	return s.ctx.driver.call("recording an event", cuEventRecord, e.handle, s.handle)
}

// Done reports whether the recorded work is finished, without waiting.
func (e *Event) Done() (bool, error) {
	err := e.ctx.driver.call("asking for an event", cuEventQuery, e.handle)
	if hasCode(err, codeNotReady) {
		return false, nil
	}
	return err == nil, err
}

// Synchronize waits on the host until the recorded work is finished.
func (e *Event) Synchronize() error {
	return e.ctx.driver.call("waiting for an event", cuEventSynchronize, e.handle)
}

// Since is the device's time from an earlier event to this one, to about half a microsecond. Both must have happened.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	ms := new(float32)
	err := e.ctx.driver.call("reading the time between events", cuEventElapsedTime, uintptr(unsafe.Pointer(ms)), earlier.handle, e.handle)
	return time.Duration(float64(*ms) * float64(time.Millisecond)), err
}

// Close frees the event.
func (e *Event) Close() error { return e.ctx.driver.call("closing an event", cuEventDestroy, e.handle) }
