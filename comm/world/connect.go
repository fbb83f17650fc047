package world

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/comm/mpi"
	"github.com/ridge-llm/ridge/comm/shm"
	"github.com/ridge-llm/ridge/comm/tcp"
	"github.com/ridge-llm/ridge/internal/handshake"
)

// streams is how many TCP connections any two ranks of a group have.
const streams = 4

// again is how long a rank waits before it calls again one that is not there yet.
const again = 100 * time.Millisecond

// connect makes this rank's ends of its groups.
func (m *meet) connect(ctx context.Context, w welcome) error {
	if m.Transport == MPI {
		return m.connectMPI()
	}
	for i, g := range m.Groups {
		at := slices.Index(g, m.Rank)
		if at < 0 {
			continue
		}
		if memory := w.Groups[i].Memory; memory.Path != "" {
			r, err := shm.Open(memory, at, len(g))
			if err != nil {
				return err
			}
			m.w.groups[i] = r
			continue
		}
		conns := make([][]net.Conn, len(g))
		err := m.wire(ctx, conns, i, g, at, w)
		if err != nil {
			for _, c := range slices.Concat(conns...) {
				c.Close()
			}
			return err
		}
		m.w.groups[i] = tcp.New(at, g, conns)
	}
	return nil
}

// connectMPI makes this rank's ends of its groups by MPI.
func (m *meet) connectMPI() error {
	l, err := mpi.Open()
	if err != nil {
		return fmt.Errorf("%w; install it on all hosts and start the ranks by its mpirun, or choose another --rank-transport", err)
	}
	m.w.mpi = l
	rank, size, err := l.World()
	if err != nil {
		return err
	}
	if rank != m.Rank || size != m.Size {
		return fmt.Errorf("comm: %s takes this process for rank %d of %d, and it is rank %d of %d; have its own mpirun start all of them, and leave out --rank", l.Name(), rank, size, m.Rank, m.Size)
	}
	for i, g := range m.Groups {
		if at := slices.Index(g, m.Rank); at >= 0 {
			r, err := l.Group(g, at)
			if err != nil {
				return err
			}
			m.w.groups[i] = r
		}
	}
	return nil
}

// wire connects this rank, number at of group i, to the others: it calls those before it and waits for those behind it.
func (m *meet) wire(ctx context.Context, conns [][]net.Conn, i int, g []int, at int, w welcome) error {
	for peer, rank := range g {
		for s := range streams {
			switch {
			case peer < at:
				conn, err := m.dial(ctx, w.Addresses[rank], purpose{uint32(m.Rank), uint32(i), uint32(s)})
				if err != nil {
					return fmt.Errorf("comm: rank %d at %s: %w", rank, w.Addresses[rank], err)
				}
				conns[peer] = append(conns[peer], conn)
			case peer > at:
				want := purpose{uint32(rank), uint32(i), uint32(s)}
				_, conn := m.door.next(func(p purpose) bool { return p == want }, m.until, ctx.Done())
				if conn == nil {
					return fmt.Errorf("comm: rank %d has not called rank %d", rank, m.Rank)
				}
				conns[peer] = append(conns[peer], conn)
			}
		}
	}
	return nil
}

// dial calls an address, again and again while nobody is there, and shakes hands.
func (m *meet) dial(ctx context.Context, address string, p purpose) (net.Conn, error) {
	for {
		conn, err := (&net.Dialer{Timeout: handshake.Timeout}).DialContext(ctx, "tcp", address)
		if err == nil {
			if err = call(conn, m.Secret, p); err == nil {
				return conn, nil
			}
			conn.Close()
			if errors.Is(err, errSecret) {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(again):
		}
	}
}

// host names this host and its folder of shared memory: processes with the same can share memory.
func host() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	folder, err := os.Stat("/dev/shm")
	if err != nil {
		return ""
	}
	if d := device(folder); d != "" {
		return strings.TrimSpace(string(boot)) + "/" + d
	}
	return ""
}

func byteOrder() string {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return "little-endian"
	}
	return "big-endian"
}

func portOf(l net.Listener) int {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}
