package driver

import "unsafe"

// Graph is a CUDA graph: work captured from a stream, which one call launches again with the parameters of the capture.
type Graph struct {
	ctx  *Context
	exec uintptr
}

const captureThreadLocal = 1 // other threads may call the driver during a capture

// Capture makes a CUDA graph of what f puts on the stream, running none of it. Only launches, copies on the device and memory sets can be
// captured; anything that waits makes it fail.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	d := s.ctx.driver
	if err := d.call("starting the capture of a CUDA graph", cuStreamBeginCapture, s.handle, captureThreadLocal); err != nil {
		return nil, err
	}
	failed := f()
	graph := new(uintptr)
	err := d.call("ending the capture of a CUDA graph", cuStreamEndCapture, s.handle, uintptr(unsafe.Pointer(graph)))
	if failed != nil {
		err = failed
	}
	if *graph != 0 {
		defer d.call("freeing a CUDA graph", cuGraphDestroy, *graph)
	}
	if err != nil {
		return nil, err
	}
	g := &Graph{ctx: s.ctx}
	return g, d.call("instantiating a CUDA graph", cuGraphInstantiate, uintptr(unsafe.Pointer(&g.exec)), *graph, 0)
}

// Replay puts the captured work on the stream.
func (s *Stream) Replay(g *Graph) error {
	return s.ctx.driver.call("launching a CUDA graph", cuGraphLaunch, g.exec, s.handle)
}

// Close frees the graph, which must not be running.
func (g *Graph) Close() error {
	return g.ctx.driver.call("freeing a CUDA graph", cuGraphExecDestroy, g.exec)
}
