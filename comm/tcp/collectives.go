package tcp

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// transfers are messages under way: those that go out, and those that come in.
type transfers struct {
	rank     *Rank
	kind     uint32
	out      int
	sent     chan error
	received []chan error // by peer
}

func (r *Rank) transfers(kind uint32) *transfers {
	return &transfers{rank: r, kind: kind, sent: make(chan error, len(r.peers)*8), received: make([]chan error, len(r.peers))}
}

// spans calls do with the part of x that each stream of a peer carries.
func (p *peer) spans(x []float32, do func(s *stream, x []float32)) int {
	if len(x) < striped {
		do(p.streams[0], x)
		return 1
	}
	n := len(p.streams)
	for i, s := range p.streams {
		do(s, x[i*len(x)/n:(i+1)*len(x)/n])
	}
	return n
}

// send begins to write x to a rank.
func (t *transfers) send(to int, x []float32) {
	t.out += t.rank.peers[to].spans(x, func(s *stream, x []float32) { s.out <- job{t.kind, x, t.sent} })
}

// receive begins to read x from a rank.
func (t *transfers) receive(from int, x []float32) {
	done := make(chan error, len(t.rank.peers[from].streams))
	n := t.rank.peers[from].spans(x, func(s *stream, x []float32) { s.in <- job{t.kind, x, done} })
	all := make(chan error, 1)
	if t.received[from] = done; n > 1 {
		t.received[from] = all
		go func() {
			var err error
			for range n {
				err = errors.Join(err, <-done)
			}
			all <- err
		}()
	}
}

// wait waits for all, and ends the group if something failed.
func (t *transfers) wait() error {
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
			t.rank.Abort(err)
		}
	}
	for from, done := range t.received {
		if done == nil {
			continue
		}
		if err := <-done; err != nil {
			note(t.from(from, err))
		}
		t.received[from] = nil
	}
	for ; t.out > 0; t.out-- {
		if err := <-t.sent; err != nil {
			note(fmt.Errorf("comm: sending to another rank: %w", err))
		}
	}
	if first != nil {
		return t.rank.failure()
	}
	return nil
}

// from is an error with the rank that it came from.
func (t *transfers) from(rank int, err error) error {
	if a := (*aborted)(nil); errors.As(err, &a) {
		return a
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("comm: rank %d is gone: its connection has ended", t.rank.names[rank])
	}
	return fmt.Errorf("comm: rank %d %w", t.rank.names[rank], err)
}

// AllReduce implements comm.Communicator: small ones are sent whole to all; of large ones each rank adds a part, which the others send it.
func (r *Rank) AllReduce(x []float32) error {
	if err := r.failure(); err != nil || len(r.peers) == 1 {
		return err
	}
	if 4*len(x) <= oneShot {
		return r.reduce(x, func(int) (int, int) { return 0, len(x) })
	}
	part := func(rank int) (from, to int) {
		return rank * len(x) / len(r.peers), (rank + 1) * len(x) / len(r.peers)
	}
	if err := r.reduce(x, part); err != nil {
		return err
	}
	t := r.transfers(allReduce)
	from, to := part(r.number)
	for i := range r.peers {
		if i != r.number {
			a, b := part(i)
			t.send(i, x[from:to])
			t.receive(i, x[a:b])
		}
	}
	return t.wait()
}

// reduce sends every rank the part of x that it adds, and adds this one's, in the order of ranks.
func (r *Rank) reduce(x []float32, part func(rank int) (from, to int)) error {
	t := r.transfers(allReduce)
	from, to := part(r.number)
	for i := range r.peers {
		if i == r.number {
			continue
		}
		a, b := part(i)
		t.send(i, x[a:b])
		if cap(r.got[i]) < to-from {
			r.got[i] = make([]float32, to-from)
		}
		r.got[i] = r.got[i][:to-from]
		t.receive(i, r.got[i])
	}
	if err := t.wait(); err != nil {
		return err
	}
	sum := x[from:to]
	if r.number > 0 {
		own := append(r.got[r.number][:0], sum...)
		r.got[r.number] = own
		copy(sum, r.got[0])
	}
	for i := 1; i < len(r.peers); i++ {
		y := r.got[i][:len(sum)]
		for k := range sum {
			sum[k] += y[k]
		}
	}
	return nil
}

// AllGather implements comm.Communicator.
func (r *Rank) AllGather(dst, src []float32) error {
	if err := r.failure(); err != nil {
		return err
	}
	t := r.transfers(allGather)
	for i := range r.peers {
		if i != r.number {
			t.send(i, src)
			t.receive(i, dst[i*len(src):(i+1)*len(src)])
		}
	}
	copy(dst[r.number*len(src):], src)
	return t.wait()
}

// Send implements comm.Communicator.
func (r *Rank) Send(to int, x []float32) error {
	if err := r.failure(); err != nil {
		return err
	}
	t := r.transfers(message)
	t.send(to, x)
	return t.wait()
}

// Recv implements comm.Communicator.
func (r *Rank) Recv(from int, x []float32) error {
	if err := r.failure(); err != nil {
		return err
	}
	t := r.transfers(message)
	t.receive(from, x)
	return t.wait()
}
