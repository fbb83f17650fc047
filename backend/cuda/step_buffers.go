package cuda

import (
	"errors"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
)

// steps keeps what steps need from one to the next: their data on host and device, and the recorded graphs.
type steps struct {
	ctx        *driver.Context
	stream     *driver.Stream
	lim        backend.Limits    // the largest that a kernel was bound with
	varying    []*graph.Rotation // rotations whose frequencies go with a step's data
	buffers    [2]stepBuffer     // one is filled while the device still reads the other
	next       int
	logitsRows int                           // rows of logits of the last step
	ready      map[*backend.Launch][]*launch // each program's launches as they are put on the stream
	graphs     map[graphKey]*driver.Graph
}

// stepBuffer holds one step's data.
type stepBuffer struct {
	host   []byte // pinned
	device driver.Ptr
	given  []byte // pinned, of embeddings; nil until there are some
	began  *driver.Event
	done   *driver.Event
}

// graphKey tells recorded graphs apart: by program, shape and where the step's data lies.
type graphKey struct {
	program *backend.Launch
	shape   shape
	buffer  int
}

func newSteps(ctx *driver.Context, stream *driver.Stream) (*steps, error) {
	st := &steps{ctx: ctx, stream: stream, ready: map[*backend.Launch][]*launch{}, graphs: map[graphKey]*driver.Graph{}}
	for i := range st.buffers {
		var err, failed error
		st.buffers[i].began, err = ctx.NewEvent()
		st.buffers[i].done, failed = ctx.NewEvent()
		if err = errors.Join(err, failed); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// need notes the limits a kernel is bound with, before the first step.
func (st *steps) need(lim backend.Limits) {
	m := &st.lim
	m.Tokens, m.Seqs, m.Logits = max(m.Tokens, lim.Tokens), max(m.Seqs, lim.Seqs), max(m.Logits, lim.Logits)
	m.Adapters = max(m.Adapters, lim.Adapters)
	m.Pages, m.PageSize, m.SeqPages = max(m.Pages, lim.Pages), lim.PageSize, max(m.SeqPages, lim.SeqPages)
	if len(lim.Groups) > len(m.Groups) {
		m.Groups = lim.Groups // for their number
	}
}

// vary notes a rotation whose frequencies depend on the sequence; the index finds them in step.rates.
func (st *steps) vary(r *graph.Rotation) int {
	for i, v := range st.varying {
		if v == r {
			return i
		}
	}
	st.varying = append(st.varying, r)
	return len(st.varying) - 1
}

// free is a buffer that the device is done with, large enough for any step of so many batches.
func (st *steps) free(batches int) (*stepBuffer, error) {
	st.next = 1 - st.next
	s := &st.buffers[st.next]
	pairs := 0
	for _, r := range st.varying {
		pairs += r.Dim/2 + 4
	}
	if n := batches*stepBytes(st.lim, pairs) + (batches-1)*arrayBytes(st.lim.Logits); len(s.host) < n { // rows of logits by another count
		return s, st.grow(n)
	}
	return s, s.done.Synchronize()
}

// grow makes both buffers n bytes large.
func (st *steps) grow(n int) error {
	st.forget()
	if err := st.stream.Synchronize(); err != nil {
		return err
	}
	for i := range st.buffers {
		s := &st.buffers[i]
		if err := st.release(s); err != nil {
			return err
		}
		var err error
		if s.host, err = st.ctx.AllocHost(n); err != nil {
			return err
		}
		if s.device, err = st.ctx.Alloc(int64(n)); err != nil {
			return err
		}
	}
	return nil
}

func (st *steps) release(s *stepBuffer) error {
	if s.given != nil {
		if err := st.ctx.FreeHost(s.given); err != nil {
			return err
		}
		s.given = nil
	}
	if s.host == nil {
		return nil
	}
	if err := st.ctx.FreeHost(s.host); err != nil {
		return err
	}
	s.host = nil
	return st.ctx.Free(s.device)
}

// forget drops the recorded graphs, because something they point to moves.
func (st *steps) forget() {
	for _, g := range st.graphs {
		g.Close()
	}
	clear(st.graphs)
	clear(st.ready)
}

func (st *steps) close() {
	st.forget()
	for i := range st.buffers {
		st.release(&st.buffers[i])
		st.buffers[i].began.Close()
		st.buffers[i].done.Close()
	}
}
