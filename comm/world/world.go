// Package world is the processes that compute a model together: they meet at an address with a secret, agree that they run the same, make groups for collectives, and
// notice within a time when one of them is gone. Rank 0 leads: it sends messages to all others, which may answer. What is sent is authenticated when a connection is made,
// and not encrypted: networks between hosts have to be trusted with the numbers of prompts.
package world

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/comm/mpi"
)

// Fact is something that must be the same on all ranks.
type Fact struct{ Name, Value string }

// Options say who a rank is and where the others are.
type Options struct {
	Rank, Size int
	Address    string       // host:port of rank 0
	Listener   net.Listener // of rank 0, which it takes; nil: it listens at Address
	Secret     []byte
	Facts      []Fact
	Groups     [][]int       // ranks of each group, the same on all
	Transport  string        // Auto, SharedMemory, TCP or MPI
	Meet       time.Duration // until all have come; 0: a minute
	Noticed    time.Duration // until a rank that says nothing is gone; 0: DefaultNoticed
	Ended      <-chan error  // tells that a rank has ended before all have met: nobody waits for it then; may be nil
	Note       func(text string)
}

// Transports of groups.
const (
	Auto         = "" // shared memory between processes of one host, and TCP between others
	SharedMemory = "shm"
	TCP          = "tcp"
	MPI          = "mpi" // by the library whose mpirun has started the ranks
)

// DefaultNoticed is after what time a rank that says nothing is gone.
const DefaultNoticed = 2 * time.Second

// beats is how many times a rank says that it is there within Noticed.
const beats = 8

// ErrOver is the error of Receive when rank 0 has closed the World.
var ErrOver = errors.New("comm: rank 0 has ended the group")

// closer is a rank of a group of any transport.
type closer interface {
	comm.Communicator
	Close() error
}

// World is a rank's end.
type World struct {
	rank, size int
	noticed    time.Duration
	near       []bool  // of rank 0: ranks on its host
	links      []*link // of rank 0: to each other; of others: to rank 0 at 0
	groups     []closer
	mpi        *mpi.Library  // nil: groups are of another transport
	inbox      chan []byte   // of a rank that does not lead: what rank 0 sends
	replies    []chan []byte // of rank 0: by rank
	mu         sync.Mutex
	leaving    bool // Close has begun: that others leave is no failure
	err        error
	ended      chan struct{} // closed when err is set
	hearing    sync.WaitGroup
	beating    sync.WaitGroup
}

// Rank is this rank's number, from 0, and Size how many there are.
func (w *World) Rank() int { return w.rank }

// Size is how many ranks there are.
func (w *World) Size() int { return w.size }

// Near reports, of rank 0, whether a rank is on the same host.
func (w *World) Near(rank int) bool { return w.near[rank] }

// Group is this rank's end of group i of Options.Groups; nil when it is not in it.
func (w *World) Group(i int) comm.Communicator {
	if w.groups[i] == nil {
		return nil
	}
	return w.groups[i]
}

// Lost is closed when the group has failed or is over.
func (w *World) Lost() <-chan struct{} { return w.ended }

// Err is why; nil before.
func (w *World) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// run begins to listen to the links and to say that this rank is there.
func (w *World) run() {
	for i, l := range w.links {
		if l == nil {
			continue
		}
		w.hearing.Go(func() { w.hear(i, l) })
		w.beating.Go(func() { w.beat(i, l) })
	}
}

// hear takes the frames of a rank until it is gone.
func (w *World) hear(rank int, l *link) {
	for {
		kind, data, err := l.read(maxFrame, w.noticed)
		if err != nil {
			w.gone(rank, err)
			return
		}
		switch kind {
		case beat:
		case payload:
			to := w.inbox
			if w.rank == 0 {
				to = w.replies[rank]
			}
			select {
			case to <- data:
			case <-w.ended:
			}
		case lost:
			w.fail(errors.New(string(data)), rank)
		case bye:
			if rank == 0 {
				w.fail(ErrOver, rank)
			} else {
				w.Fail(fmt.Errorf("comm: rank %d has left", rank))
			}
		default:
			w.Fail(fmt.Errorf("comm: rank %d sends a message of kind %d, which this version does not know", rank, kind))
			return
		}
	}
}

// gone notes that a rank has gone, unless it has said so.
func (w *World) gone(rank int, err error) {
	var timeout net.Error
	why := "its connection has failed: " + err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		why = "its process has ended"
	}
	if errors.As(err, &timeout) && timeout.Timeout() {
		why = fmt.Sprintf("nothing has come from it for %s", w.noticed)
	}
	w.Fail(fmt.Errorf("comm: rank %d is gone: %s", rank, why))
}

// beat says again and again that this rank is there.
func (w *World) beat(rank int, l *link) {
	tick := time.NewTicker(w.noticed / beats)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := l.write(beat, nil, w.noticed); err != nil {
				w.gone(rank, err)
				return
			}
		case <-w.ended:
			return
		}
	}
}

// Fail ends the group for all ranks: what waits for others ends with err.
func (w *World) Fail(err error) { w.fail(err, -1) }

// fail is Fail for an error that a rank has told, who need not be told.
func (w *World) fail(err error, from int) {
	w.mu.Lock()
	if w.err != nil || w.leaving && !errors.Is(err, ErrOver) {
		w.mu.Unlock()
		return
	}
	w.err = err
	close(w.ended)
	w.mu.Unlock()
	for _, g := range w.groups {
		if g != nil {
			g.Abort(err)
		}
	}
	if errors.Is(err, ErrOver) {
		return
	}
	for i, l := range w.links {
		if l != nil && i != from {
			_ = l.write(lost, []byte(err.Error()), w.noticed/beats) // whoever is gone need not know
		}
	}
}

// Broadcast sends a message of rank 0 to all others, which Receive it in order. It is an error of the group when one cannot take it.
func (w *World) Broadcast(data []byte) error {
	if err := w.Err(); err != nil {
		return err
	}
	for i, l := range w.links {
		if l == nil {
			continue
		}
		if err := l.write(payload, data, w.noticed); err != nil {
			w.gone(i, err)
			return w.Err()
		}
	}
	return nil
}

// Send sends a message to a rank: of rank 0 to any, of others to rank 0.
func (w *World) Send(rank int, data []byte) error {
	if err := w.Err(); err != nil {
		return err
	}
	if err := w.links[rank].write(payload, data, w.noticed); err != nil {
		w.gone(rank, err)
		return w.Err()
	}
	return nil
}

// Receive is the next message of rank 0.
func (w *World) Receive() ([]byte, error) { return w.next(w.inbox) }

// ReceiveFrom is, of rank 0, the next message of another rank.
func (w *World) ReceiveFrom(rank int) ([]byte, error) { return w.next(w.replies[rank]) }

func (w *World) next(from chan []byte) ([]byte, error) {
	select {
	case data := <-from:
		return data, nil
	case <-w.ended:
	}
	select { // what came before the end
	case data := <-from:
		return data, nil
	default:
		return nil, w.Err()
	}
}

// parting is how long Close waits for ranks to hear that the group has failed.
const parting = 200 * time.Millisecond

// Reason is why a collective gave an error: that of the group, if it has ended or does so in a moment. Through shared memory a rank may see that others have left before
// it is told why.
func (w *World) Reason(err error) error {
	select {
	case <-w.ended:
		return w.Err()
	case <-time.After(parting):
		return err
	}
}

// Close leaves the group: of rank 0 it ends it for all. No collective may be under way.
func (w *World) Close() error {
	wait := parting
	w.mu.Lock()
	w.leaving = true // those that are told first leave before the others are told
	over := w.err == nil
	w.mu.Unlock()
	if over {
		for _, l := range w.links {
			if l != nil {
				_ = l.write(bye, nil, w.noticed) // whoever is gone need not know
			}
		}
		w.fail(ErrOver, -1)
		wait = w.noticed
	}
	// A connection that is closed with something unread in it loses what was written last: the other side has to close first, or have had time for it.
	w.each(func(l *link) error {
		if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
			return c.CloseWrite()
		}
		return nil
	})
	timer := time.AfterFunc(wait, func() { w.each(func(l *link) error { return l.conn.Close() }) })
	w.hearing.Wait()
	timer.Stop()
	w.each(func(l *link) error { return l.conn.Close() })
	w.beating.Wait()
	var err error
	for _, g := range w.groups {
		if g != nil {
			err = errors.Join(err, g.Close())
		}
	}
	if w.mpi != nil && errors.Is(w.Err(), ErrOver) { // else those that are gone would be waited for
		err = errors.Join(err, w.mpi.Close(w.noticed))
	}
	return err
}

// each does something with the connections, which may be closed already.
func (w *World) each(do func(l *link) error) {
	for _, l := range w.links {
		if l != nil {
			_ = do(l) // closed already
		}
	}
}
