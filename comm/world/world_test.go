package world_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/comm/commtest"
	"github.com/ridge-llm/ridge/comm/world"
)

var secret = []byte("a secret of tests")

// meet has so many ranks meet; change may change what one of them says.
func meet(t *testing.T, ranks int, change func(o *world.Options)) ([]*world.World, []error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := make([]int, ranks)
	for i := range all {
		all[i] = i
	}
	worlds, errs := make([]*world.World, ranks), make([]error, ranks)
	var wait sync.WaitGroup
	for i := range ranks {
		o := world.Options{Rank: i, Size: ranks, Address: l.Addr().String(), Secret: secret, Groups: [][]int{all}, Meet: 20 * time.Second, Noticed: 20 * time.Second,
			Facts: []world.Fact{{Name: "model", Value: "a"}}}
		if i == 0 {
			o.Listener = l
		}
		if change != nil {
			change(&o)
		}
		wait.Go(func() { worlds[i], errs[i] = world.Meet(context.Background(), o) })
	}
	wait.Wait()
	t.Cleanup(func() {
		var closing sync.WaitGroup
		for _, w := range worlds {
			if w != nil {
				closing.Go(func() { w.Close() })
			}
		}
		closing.Wait()
	})
	return worlds, errs
}

// TestCommunicator: groups of both transports are what comm promises.
func TestCommunicator(t *testing.T) {
	for _, transport := range []string{world.Auto, world.TCP} {
		t.Run("transport "+transport, func(t *testing.T) {
			commtest.Run(t, func(t *testing.T, ranks int) (all []comm.Communicator) {
				worlds, errs := meet(t, ranks, func(o *world.Options) { o.Transport = transport })
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				for _, w := range worlds {
					all = append(all, w.Group(0))
				}
				return all
			})
		})
	}
}

// TestMessages: rank 0's messages arrive at all in order, answers at rank 0, and its Close is no failure.
func TestMessages(t *testing.T) {
	worlds, errs := meet(t, 3, nil)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 5<<20)
	var wait sync.WaitGroup
	for i, w := range worlds[1:] {
		wait.Go(func() {
			for _, want := range []string{"", "one", large} {
				if got, err := w.Receive(); err != nil || string(got) != want {
					t.Errorf("rank %d receives %d bytes, %v; wanted %d", i+1, len(got), err, len(want))
				}
			}
			if err := w.Send(0, fmt.Append(nil, "from ", i+1)); err != nil {
				t.Error(err)
			}
			if _, err := w.Receive(); !errors.Is(err, world.ErrOver) {
				t.Errorf("rank %d ends with %v", i+1, err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for _, text := range []string{"", "one", large} {
		if err := worlds[0].Broadcast([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < 3; i++ {
		if got, err := worlds[0].ReceiveFrom(i); err != nil || string(got) != fmt.Sprint("from ", i) {
			t.Errorf("rank %d answers %q, %v", i, got, err)
		}
	}
	if err := worlds[0].Close(); err != nil {
		t.Error(err)
	}
	wait.Wait()
}

// TestRefused: ranks that differ get the reason, all of them, with what differs by name.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(o *world.Options){
		`rank 1 does not run the same: the model is "b" there and "a" on rank 0`: func(o *world.Options) {
			if o.Rank == 1 {
				o.Facts = []world.Fact{{Name: "model", Value: "b"}}
			}
		},
		"rank 1 knows of 3 ranks and rank 0 of 2": func(o *world.Options) {
			if o.Rank == 1 {
				o.Size = 3
			}
		},
		"rank 1 is another version of Ridge: it does not say its model": func(o *world.Options) {
			if o.Rank == 1 {
				o.Facts = nil
			}
		},
		"rank 1 has the groups [[1]] and rank 0 [[0 1]]": func(o *world.Options) {
			if o.Rank == 1 {
				o.Groups = [][]int{{1}}
			}
		},
	} {
		_, errs := meet(t, 2, change)
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v; wanted %q", rank, err, want)
			}
		}
	}
}

// TestSecret: a rank with another secret is turned away, is told so, and the group does not wait for longer than it is told to.
func TestSecret(t *testing.T) {
	_, errs := meet(t, 2, func(o *world.Options) {
		if o.Meet = 500 * time.Millisecond; o.Rank == 1 {
			o.Secret = []byte("some other secret")
		}
	})
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "of 2 ranks those of number 1 have not come") {
		t.Errorf("rank 0: %v", errs[0])
	}
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "another secret") {
		t.Errorf("rank 1: %v", errs[1])
	}
}

// TestStrangers: callers that send nothing, nonsense, or half of a handshake keep no rank from coming.
func TestStrangers(t *testing.T) {
	worlds, errs := meet(t, 2, func(o *world.Options) {
		if o.Rank != 0 {
			return
		}
		for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\x00", 200), "ridge ranks 1\n"} {
			conn, err := net.Dial("tcp", o.Address)
			if err != nil {
				t.Error(err)
				continue
			}
			if _, err := io.WriteString(conn, text); err != nil {
				t.Error(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if worlds[0].Size() != 2 {
		t.Errorf("%d ranks have met", worlds[0].Size())
	}
}

// proxy stands between ranks and rank 0, until it is cut: nothing goes through then, and nobody is told.
type proxy struct {
	net.Listener
	to  string
	cut chan struct{}
}

func (p *proxy) serve() {
	for {
		from, err := p.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.to)
		if err != nil {
			from.Close()
			return
		}
		go p.copy(to, from)
		go p.copy(from, to)
	}
}

func (p *proxy) copy(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		select {
		case <-p.cut:
			return // both ends stay open
		default:
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			to.Close()
			return
		}
	}
}

// TestCut: a link that is cut, without either end being told, is noticed by both within the time that was asked for, and what waits for the other ends.
func TestCut(t *testing.T) {
	p := &proxy{cut: make(chan struct{})}
	worlds, errs := meet(t, 2, func(o *world.Options) {
		o.Noticed = 700 * time.Millisecond
		if o.Rank == 1 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			p.Listener, p.to = l, o.Address
			o.Address = l.Addr().String()
			go p.serve()
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	close(p.cut)
	for rank, err := range commtest.Together([]comm.Communicator{worlds[0].Group(0), worlds[1].Group(0)}, func(c comm.Communicator) error {
		if c.Rank() == 0 {
			return c.Recv(1, make([]float32, 1))
		}
		return c.Recv(0, make([]float32, 1))
	}) {
		if err == nil || !strings.Contains(err.Error(), "is gone: nothing has come from it for 700ms") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if took := time.Since(cut); took > 10*time.Second {
		t.Errorf("it was noticed after %s", took)
	}
}

// TestFail: what fails on one rank ends what the others wait for, with its reason.
func TestFail(t *testing.T) {
	worlds, errs := meet(t, 3, nil)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("rank 2: no memory")
	var group []comm.Communicator
	for _, w := range worlds {
		group = append(group, w.Group(0))
	}
	for rank, err := range commtest.Together(group, func(c comm.Communicator) error {
		if c.Rank() == 2 {
			worlds[2].Fail(failed)
			return failed
		}
		return c.AllReduce(make([]float32, 8))
	}) {
		if err == nil || !strings.Contains(err.Error(), "no memory") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if _, err := worlds[1].Receive(); err == nil || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("rank 1 receives after the end: %v", err)
	}
}

// TestNotThereYet: who answers for rank 0 before it is there, as a proxy does, and ends the connection, is called again; it is not taken for one with another secret.
func TestNotThereYet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := func(rank int) world.Options {
		return world.Options{Rank: rank, Size: 2, Address: l.Addr().String(), Secret: secret, Groups: [][]int{{0, 1}}, Meet: 20 * time.Second, Noticed: 20 * time.Second}
	}
	var worlds [2]*world.World
	var errs [2]error
	var wait sync.WaitGroup
	wait.Go(func() { worlds[1], errs[1] = world.Meet(context.Background(), options(1)) })
	for range 2 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	o := options(0)
	o.Listener = l
	worlds[0], errs[0] = world.Meet(context.Background(), o)
	wait.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		wait.Go(func() { w.Close() })
	}
	wait.Wait()
}

// TestReason: a rank in a collective that rank 0 leaves by ending the group finds out that it has ended, however it is told first; an error of its own stays.
func TestReason(t *testing.T) {
	for _, transport := range []string{world.Auto, world.TCP} {
		for range 3 {
			worlds, errs := meet(t, 2, func(o *world.Options) { o.Transport = transport })
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			own := errors.New("an error of its own")
			if err := worlds[1].Reason(own); err != own {
				t.Fatalf("%s: %v", transport, err)
			}
			ended := make(chan error)
			go func() { ended <- worlds[1].Group(0).AllReduce(make([]float32, 4)) }()
			closed := make(chan error)
			go func() { closed <- worlds[0].Close() }() // which waits for the others to leave
			if err := <-ended; err == nil || !errors.Is(worlds[1].Reason(err), world.ErrOver) {
				t.Errorf("%s: %v, %v", transport, err, worlds[1].Reason(err))
			}
			if err := errors.Join(worlds[1].Close(), <-closed); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLeaveOneByOne: ranks that leave as soon as they hear of the group's end are not missed by those that have not heard of it yet.
func TestLeaveOneByOne(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // else they seldom overtake one another
	for range 10 {
		worlds, errs := meet(t, 8, func(o *world.Options) { o.Transport = world.TCP })
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for _, w := range worlds[1:] {
			wait.Go(func() {
				if _, err := w.Receive(); !errors.Is(err, world.ErrOver) {
					t.Errorf("rank %d: %v", w.Rank(), err)
				}
				if err := w.Close(); err != nil {
					t.Errorf("rank %d leaves: %v", w.Rank(), err)
				}
			})
		}
		if err := worlds[0].Close(); err != nil {
			t.Fatal(err)
		}
		wait.Wait()
	}
}
