package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/collective"
	"github.com/ridge-llm/ridge/backend/cuda/nccl"
)

// ncclGroup is this rank's end of a group of NCCL, if there is one. NCCL waits on the host where one would not expect it: for all ranks, in the first call of
// each kind (it connects them then); and when a group ends, for its other ranks in this process and for all CUDA graphs with calls of the group to be destroyed.
type ncclGroup struct {
	comm  atomic.Pointer[nccl.Comm] // nil: NCCL is not used, or not any more
	calls sync.Mutex                // held by a call
	ended chan error                // of what ends the group; nil: nothing does
}

const (
	callPatience = time.Second      // for a call under way, before the group is ended in spite of it: it may wait for a rank that is gone
	joinPatience = time.Minute      // for all connections to be made
	endPatience  = 10 * time.Second // for NCCL to end a group
)

var errGroupOver = errors.New("cuda: the group of GPUs is over")

// call runs f with the group.
func (g *ncclGroup) call(f func(*nccl.Comm) error) error {
	g.calls.Lock()
	defer g.calls.Unlock()
	c := g.comm.Load()
	if c == nil {
		return errGroupOver
	}
	return f(c)
}

// end has NCCL end the group, once, without waiting for that.
func (g *ncclGroup) end(ctx *driver.Context, how func(*nccl.Comm) error) {
	c := g.comm.Swap(nil) // so that no other call begins
	if c == nil {
		return
	}
	ended := make(chan error, 1)
	g.ended = ended
	go func() {
		for start := time.Now(); time.Since(start) < callPatience; time.Sleep(time.Millisecond) {
			if g.calls.TryLock() {
				g.calls.Unlock()
				break
			}
		}
		ended <- ctx.Do(func() error { return how(c) })
	}()
}

// joinNCCL makes this rank one of the group, and has NCCL make all connections now, while all ranks are here and nothing else runs.
func (p *peers) joinNCCL(library *nccl.Library, id nccl.ID) error {
	c, err := library.Join(id, p.group.Rank, p.group.Ranks)
	if err != nil {
		return err
	}
	p.nccl.comm.Store(c)
	late := time.AfterFunc(joinPatience, func() { p.Abort(fmt.Errorf("NCCL has not connected %d ranks after %v", p.group.Ranks, joinPatience)) })
	defer late.Stop()
	return p.connectNCCL(c)
}

// connectNCCL does what steps will do, with as many bytes as choose each of NCCL's algorithms. The window, which our kernels do not use then, has the numbers.
func (p *peers) connectNCCL(c *nccl.Comm) error {
	s, x, half := p.d.stream, p.window, driver.Ptr(collective.WindowBytes/2)
	do := func(err error) error { return errors.Join(err, s.Synchronize()) }
	for bytes := int64(16); bytes <= collective.WindowBytes; bytes *= 4 {
		if err := do(c.AllReduce(s, x, x, bytes/4, nccl.F32)); err != nil {
			return err
		}
		if share := bytes / 2 / int64(p.group.Ranks) / 4; share > 0 {
			if err := do(c.AllGather(s, x, x+half, share, nccl.F32)); err != nil {
				return err
			}
		}
	}
	// Messages go from a stage of a pipeline to the next. A rank receives first, so that none waits in a circle.
	if p.group.Rank > 0 {
		if err := do(c.Recv(s, p.group.Rank-1, x, 16)); err != nil {
			return err
		}
	}
	if p.group.Rank < p.group.Ranks-1 {
		return do(c.Send(s, p.group.Rank+1, x, 16))
	}
	return nil
}

// leaveNCCL ends the group, if it is not ending already, and waits for that.
func (p *peers) leaveNCCL() error {
	p.nccl.end(p.d.ctx, (*nccl.Comm).Close)
	if p.nccl.ended == nil {
		return nil
	}
	defer func() { p.nccl.ended = nil }()
	p.d.steps.forget() // the graphs, which NCCL would wait for
	select {
	case err := <-p.nccl.ended:
		return err
	case <-time.After(endPatience):
		return fmt.Errorf("cuda: NCCL has not ended the group of rank %d after %v", p.group.Rank, endPatience)
	}
}
