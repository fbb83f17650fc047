package driver

import "unsafe"

// Graph is a recorded run of work that one call launches again, with the very parameters it was recorded with.
type Graph struct {
	ctx  *Context
	exec uintptr
}

const captureThreadLocal = 1 // other threads may go on calling the driver while we record

// Capture records what f puts on the stream, running none of it. Only launches, copies on the device and memory sets can be
// recorded; anything that waits makes it fail.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	d := s.ctx.driver
	if err := d.call("starting to record a graph", cuStreamBeginCapture, s.handle, captureThreadLocal); err != nil {
		return nil, err
	}
	failed := f()
	graph := new(uintptr)
	err := d.call("ending the record of a graph", cuStreamEndCapture, s.handle, uintptr(unsafe.Pointer(graph)))
	if failed != nil {
		err = failed
	}
	if *graph != 0 {
		defer d.call("freeing a graph", cuGraphDestroy, *graph)
	}
	if err != nil {
		return nil, err
	}
	g := &Graph{ctx: s.ctx}
	return g, d.call("making a graph ready", cuGraphInstantiate, uintptr(unsafe.Pointer(&g.exec)), *graph, 0)
}

// Replay puts the recorded work on the stream.
func (s *Stream) Replay(g *Graph) error {
	return s.ctx.driver.call("launching a graph", cuGraphLaunch, g.exec, s.handle)
}

// Close frees the graph, which must not be running.
func (g *Graph) Close() error {
	return g.ctx.driver.call("freeing a graph", cuGraphExecDestroy, g.exec)
}
