package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/comm/shm"
	"github.com/ridge-llm/ridge/internal/handshake"
)

// hello is what a rank tells rank 0.
type hello struct {
	Size   int
	Facts  []Fact
	Groups [][]int
	Port   int                // at which it takes connections of groups
	Host   string             // tells hosts whose processes share memory apart; "": it shares none
	Memory map[int]shm.Memory // that it has made for the groups whose first rank it is
}

// welcome is what rank 0 tells all.
type welcome struct {
	Refusal   string
	Addresses []string // of ranks, for connections of groups
	Groups    []wiring
}

// wiring is how a group exchanges numbers: through memory or, where it has no path, TCP.
type wiring struct{ Memory shm.Memory }

// ready says that a rank has its groups, or why not; start, that all have.
type (
	ready struct{ Problem string }
	start struct{ Refusal string }
)

const defaultMeet = time.Minute

// Meet has the ranks find each other. It returns when all have, with the groups made, or none: everyone gets the reason.
func Meet(ctx context.Context, o Options) (*World, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.Ended != nil {
		go func() {
			select {
			case err := <-o.Ended:
				cancel(err)
			case <-ctx.Done():
			}
		}()
	}
	w, err := meetAll(ctx, o)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return w, err
}

func meetAll(ctx context.Context, o Options) (*World, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Meet)
	defer cancel()
	m := &meet{Options: o, w: &World{
		rank: o.Rank, size: o.Size, noticed: o.Noticed, links: make([]*link, o.Size), groups: make([]closer, len(o.Groups)), ended: make(chan struct{}),
		inbox: make(chan []byte, 64),
	}}
	m.until, _ = ctx.Deadline()
	for range o.Size {
		m.w.replies = append(m.w.replies, make(chan []byte, 64))
	}
	err := m.makeMemory()
	if err == nil {
		if o.Rank == 0 {
			err = m.lead(ctx)
		} else {
			err = m.follow(ctx)
		}
	}
	m.removeMemory()
	if m.door != nil {
		m.door.close()
	}
	if err != nil {
		m.w.fail(ErrOver, -1) // nobody hears: the links say why, or are gone
		return nil, errors.Join(err, m.w.Close())
	}
	m.w.run()
	return m.w, nil
}

// ofHosts reports whether the transport is one between hosts, whatever host the ranks are on.
func (o *Options) ofHosts() bool { return o.Transport == TCP || o.Transport == MPI }

func (o *Options) check() error {
	if o.Meet == 0 {
		o.Meet = defaultMeet
	}
	if o.Noticed == 0 {
		o.Noticed = DefaultNoticed
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	switch {
	case o.Size < 1 || o.Rank < 0 || o.Rank >= o.Size:
		return fmt.Errorf("comm: rank %d of %d; ranks count from 0", o.Rank, o.Size)
	case len(o.Secret) < 16:
		return fmt.Errorf("comm: the ranks' secret has %d bytes; 16 at least are needed", len(o.Secret))
	case !slices.Contains([]string{Auto, SharedMemory, TCP, MPI}, o.Transport):
		return fmt.Errorf("comm: the transport %q; %s, %s and %s are possible, or none: what fits", o.Transport, SharedMemory, TCP, MPI)
	}
	o.Facts = append([]Fact{{"transport", o.Transport}, {"byte order", byteOrder()}}, o.Facts...)
	return nil
}

// meet is a meeting under way.
type meet struct {
	Options
	w      *World
	door   *door
	until  time.Time
	memory map[int]shm.Memory
}

// makeMemory makes what the groups whose first rank this is may share.
func (m *meet) makeMemory() error {
	m.memory = map[int]shm.Memory{}
	for i, g := range m.Groups {
		if len(g) < 2 || g[0] != m.Rank || m.ofHosts() || host() == "" {
			continue
		}
		memory, err := shm.Create(len(g))
		if err == nil {
			m.memory[i] = memory
		} else if m.Transport == SharedMemory {
			return err
		} else {
			m.Note(err.Error() + "; TCP takes its place")
		}
	}
	return nil
}

func (m *meet) removeMemory() {
	for _, memory := range m.memory {
		if err := shm.Remove(memory); err != nil {
			m.Note(err.Error())
		}
	}
}

func (m *meet) hello(port int) hello {
	return hello{Size: m.Size, Facts: m.Facts, Groups: m.Groups, Port: port, Host: host(), Memory: m.memory}
}

// lead is the meeting of rank 0.
func (m *meet) lead(ctx context.Context) error {
	l := m.Listener
	if l == nil {
		var err error
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", m.Address); err != nil {
			return fmt.Errorf("comm: the rendezvous: %w", err)
		}
	}
	m.door = newDoor(l, m.Secret, m.Note)
	hellos := make([]hello, m.Size)
	hellos[0] = m.hello(portOf(l))
	w := welcome{Addresses: make([]string, m.Size), Groups: make([]wiring, len(m.Groups))}
	for missing := m.Size - 1; missing > 0; missing-- {
		rank, h, err := m.arrival(ctx)
		if err == nil {
			hellos[rank] = h
			err = m.differs(rank, h)
		}
		if err != nil {
			return m.refuse(err)
		}
		ip, _, _ := net.SplitHostPort(m.w.links[rank].conn.RemoteAddr().String())
		w.Addresses[rank] = net.JoinHostPort(ip, fmt.Sprint(h.Port))
	}
	for _, h := range hellos {
		m.w.near = append(m.w.near, h.Host == hellos[0].Host)
	}
	for i, g := range m.Groups {
		memory, err := m.shared(hellos, i, g)
		if err != nil {
			return m.refuse(err)
		}
		w.Groups[i].Memory = memory
	}
	for _, l := range m.w.links {
		if l != nil {
			if err := l.say(w, m.Noticed); err != nil {
				return m.refuse(err)
			}
		}
	}
	problem := m.connect(ctx, w)
	for rank, l := range m.w.links {
		var r ready
		if l == nil {
			continue
		}
		if err := l.hear(&r, time.Until(m.until)); err != nil {
			problem = errors.Join(problem, fmt.Errorf("comm: rank %d is gone while ranks meet: %w", rank, err))
		} else if r.Problem != "" {
			problem = errors.Join(problem, fmt.Errorf("comm: rank %d: %s", rank, r.Problem))
		}
	}
	if problem != nil {
		return m.refuse(problem)
	}
	for _, l := range m.w.links {
		if l != nil {
			if err := l.say(start{}, m.Noticed); err != nil {
				return m.refuse(err)
			}
		}
	}
	return nil
}

// arrival is the next rank that comes.
func (m *meet) arrival(ctx context.Context) (rank int, h hello, err error) {
	p, conn := m.door.next(func(p purpose) bool { return p.Group == control }, m.until, ctx.Done())
	if conn == nil {
		var missing []string
		for i, l := range m.w.links {
			if l == nil && i != 0 {
				missing = append(missing, fmt.Sprint(i))
			}
		}
		return 0, h, fmt.Errorf("comm: of %d ranks those of number %s have not come to %s within %s", m.Size, strings.Join(missing, ", "), m.door.listener.Addr(), m.Meet)
	}
	rank = int(p.Rank)
	if rank < 1 || rank >= m.Size {
		conn.Close()
		return 0, h, fmt.Errorf("comm: a rank of number %d has come; there are %d, counted from 0", rank, m.Size)
	}
	m.w.links[rank] = &link{conn: conn}
	return rank, h, m.w.links[rank].hear(&h, handshake.Timeout)
}

// differs says in what a rank is not like rank 0.
func (m *meet) differs(rank int, h hello) error {
	if h.Size != m.Size {
		return fmt.Errorf("comm: rank %d knows of %d ranks and rank 0 of %d", rank, h.Size, m.Size)
	}
	var all []string
	for i, f := range m.Facts {
		switch {
		case i >= len(h.Facts) || h.Facts[i].Name != f.Name:
			return fmt.Errorf("comm: rank %d is another version of Ridge: it does not say its %s", rank, f.Name)
		case h.Facts[i].Value != f.Value:
			all = append(all, fmt.Sprintf("the %s is %q there and %q on rank 0", f.Name, h.Facts[i].Value, f.Value))
		}
	}
	if len(h.Facts) > len(m.Facts) {
		all = append(all, "it is another version of Ridge")
	}
	if len(all) > 0 {
		return fmt.Errorf("comm: rank %d does not run the same: %s", rank, strings.Join(all, "; "))
	}
	if !slices.EqualFunc(h.Groups, m.Groups, slices.Equal) {
		return fmt.Errorf("comm: rank %d has the groups %v and rank 0 %v", rank, h.Groups, m.Groups)
	}
	return nil
}

// shared is the memory of a group; none where its ranks are on several hosts.
func (m *meet) shared(hellos []hello, i int, g []int) (shm.Memory, error) {
	if len(g) < 2 || m.ofHosts() {
		return shm.Memory{}, nil
	}
	first := hellos[g[0]]
	for _, rank := range g {
		if h := hellos[rank].Host; h == "" || h != first.Host {
			if m.Transport == SharedMemory {
				return shm.Memory{}, fmt.Errorf("comm: the ranks %v are to share memory, and %d and %d are on different hosts", g, g[0], rank)
			}
			return shm.Memory{}, nil
		}
	}
	return first.Memory[i], nil
}

// refuse tells all that have come why there is no group, and gives them time to hear it.
func (m *meet) refuse(err error) error {
	for {
		p, conn := m.door.next(func(p purpose) bool { return p.Group == control && p.Rank != 0 && p.Rank < uint32(m.Size) }, time.Now(), nil)
		if conn == nil {
			break
		}
		m.w.links[p.Rank] = &link{conn: conn}
	}
	var all sync.WaitGroup
	for _, l := range m.w.links {
		if l == nil {
			continue
		}
		all.Go(func() {
			_ = l.say(welcome{Refusal: err.Error()}, m.Noticed) // who has gone need not know
			if c, ok := l.conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
				_ = l.conn.SetReadDeadline(time.Now().Add(parting))
				_, _ = io.Copy(io.Discard, l.conn)
			}
		})
	}
	all.Wait()
	return err
}

// follow is the meeting of another rank than 0.
func (m *meet) follow(ctx context.Context) error {
	conn, err := m.dial(ctx, m.Address, purpose{uint32(m.Rank), control, 0})
	if err != nil {
		return fmt.Errorf("comm: rank 0 at %s: %w", m.Address, err)
	}
	m.w.links[0] = &link{conn: conn}
	local, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(local, "0"))
	if err != nil {
		return fmt.Errorf("comm: listening for other ranks: %w", err)
	}
	m.door = newDoor(l, m.Secret, m.Note)
	if err := m.w.links[0].say(m.hello(portOf(l)), m.Noticed); err != nil {
		return fmt.Errorf("comm: rank 0 at %s: %w", m.Address, err)
	}
	var w welcome
	if err := m.w.links[0].hear(&w, time.Until(m.until)); err != nil {
		return fmt.Errorf("comm: waiting for the other ranks: %w", err)
	}
	if w.Refusal != "" {
		return errors.New(w.Refusal)
	}
	if len(w.Groups) != len(m.Groups) || len(w.Addresses) != m.Size {
		return errors.New("comm: rank 0 is another version of Ridge: it tells of other groups")
	}
	w.Addresses[0] = conn.RemoteAddr().String()
	var r ready
	problem := m.connect(ctx, w)
	if problem != nil {
		r.Problem = problem.Error()
	}
	if err := m.w.links[0].say(r, m.Noticed); err != nil {
		return errors.Join(problem, err)
	}
	var s start
	if err := m.w.links[0].hear(&s, time.Until(m.until)); err != nil {
		return errors.Join(problem, fmt.Errorf("comm: waiting for the other ranks: %w", err))
	}
	if s.Refusal != "" {
		return errors.New(s.Refusal)
	}
	return problem
}
