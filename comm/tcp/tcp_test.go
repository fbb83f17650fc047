package tcp_test

import (
	"net"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/comm/commtest"
	"github.com/ridge-llm/ridge/comm/tcp"
)

// pair is both ends of a connection over the loopback.
func pair(t testing.TB, l net.Listener) (a, b net.Conn) {
	t.Helper()
	got := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return a, <-got
}

// connected is a group with three streams between any two ranks.
func connected(t testing.TB, ranks int) (all []comm.Communicator) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make([][][]net.Conn, ranks)
	for i := range conns {
		conns[i] = make([][]net.Conn, ranks)
	}
	for i := range ranks {
		for j := range i {
			for range 3 {
				a, b := pair(t, l)
				conns[i][j], conns[j][i] = append(conns[i][j], a), append(conns[j][i], b)
			}
		}
	}
	for i := range ranks {
		r := tcp.New(i, []int{0, 1, 2, 3, 4, 5, 6, 7}, conns[i])
		t.Cleanup(func() { r.Close() })
		all = append(all, r)
	}
	return all
}

// TestCommunicator: what every transport promises.
func TestCommunicator(t *testing.T) {
	commtest.Run(t, func(t *testing.T, ranks int) []comm.Communicator { return connected(t, ranks) })
}

// TestHalfWritten: a message whose sender goes in the middle of it is an error that names the rank, and no number of it is taken for a whole one's.
func TestHalfWritten(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, half := range [][]byte{{}, make([]byte, 7), append([]byte{3, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 399)...)} {
		a, b := pair(t, l)
		r := tcp.New(0, []int{4, 7}, [][]net.Conn{nil, {a}})
		if _, err := b.Write(half); err != nil {
			t.Fatal(err)
		}
		b.Close()
		if err := r.Recv(1, make([]float32, 100)); err == nil || !strings.Contains(err.Error(), "rank 7 is gone: its connection has ended") {
			t.Errorf("%d bytes of a message: %v", len(half), err)
		}
		if err := r.Recv(1, make([]float32, 100)); err == nil {
			t.Errorf("%d bytes of a message: the next one is received", len(half))
		}
		r.Close()
	}
}
