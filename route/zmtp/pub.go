package zmtp

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"
)

// Publisher is a PUB socket: what it is given goes to every subscriber whose topics match. One that reads too slowly misses messages; none
// holds up the publisher.
type Publisher struct {
	room   int // messages that wait for a slow subscriber
	listen net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu   sync.Mutex
	subs map[*subscriber]struct{}
}

type subscriber struct {
	*conn
	queue  chan [][]byte
	mu     sync.Mutex
	topics [][]byte
}

// NewPublisher opens a PUB socket: it listens where the endpoint's host is * or an address of this machine that says so (0.0.0.0, ::), and else connects, again and again.
func NewPublisher(endpoint string, room int) (*Publisher, error) {
	address, every, err := Address(endpoint)
	if err != nil {
		return nil, err
	}
	p := &Publisher{room: room, subs: map[*subscriber]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if !every {
		p.wait.Go(func() { redial(p.ctx, address, func(raw net.Conn) { p.serve(raw) }) })
		return p, nil
	}
	if p.listen, err = net.Listen("tcp", address); err != nil {
		p.cancel()
		return nil, err
	}
	p.wait.Go(func() { accept(p.ctx, p.listen, &p.wait, p.serve) })
	return p, nil
}

// Addr is where the publisher listens; nil: nowhere.
func (p *Publisher) Addr() net.Addr {
	if p.listen == nil {
		return nil
	}
	return p.listen.Addr()
}

// redial connects again and again, and has f use each connection, until ctx is done.
func redial(ctx context.Context, address string, f func(net.Conn)) {
	const least, most = 100 * time.Millisecond, 5 * time.Second
	for pause := least; ctx.Err() == nil; {
		d := net.Dialer{Timeout: greetingTime}
		if raw, err := d.DialContext(ctx, "tcp", address); err == nil {
			began := time.Now()
			f(raw)
			if time.Since(began) > most {
				pause = least
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, most)
	}
}

// accept has f use each connection that comes.
func accept(ctx context.Context, l net.Listener, wait *sync.WaitGroup, f func(net.Conn)) {
	for {
		raw, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				raw.Close()
			}
			return
		}
		if err != nil { // of this connection, or too many files are open
			time.Sleep(10 * time.Millisecond)
			continue
		}
		wait.Go(func() { f(raw) })
	}
}

// serve has a subscriber's messages sent until it goes.
func (p *Publisher) serve(raw net.Conn) {
	stop := context.AfterFunc(p.ctx, func() { raw.Close() })
	defer stop()
	c, err := handshake(raw, "PUB")
	if err != nil {
		return
	}
	defer c.Close()
	s := &subscriber{conn: c, queue: make(chan [][]byte, p.room)}
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	gone := make(chan struct{})
	p.wait.Go(func() {
		defer close(gone)
		for {
			frames, err := c.receive()
			if err != nil {
				return
			}
			s.change(frames)
		}
	})
	for open := true; open; {
		select {
		case frames := <-s.queue:
			open = c.send(frames...) == nil
		case <-gone:
			open = false
		}
	}
	p.mu.Lock()
	delete(p.subs, s)
	p.mu.Unlock()
}

// change takes a subscription in, or out: a frame of 1 or 0 and the topic.
func (s *subscriber) change(frames [][]byte) {
	if len(frames) != 1 || len(frames[0]) == 0 {
		return
	}
	topic := frames[0][1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch frames[0][0] {
	case 1:
		if len(s.topics) >= maxTopics {
			return
		}
		s.topics = append(s.topics, topic)
	case 0:
		for i, t := range s.topics {
			if bytes.Equal(t, topic) {
				s.topics = append(s.topics[:i], s.topics[i+1:]...)
				return
			}
		}
	}
}

func (s *subscriber) wants(topic []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.topics {
		if bytes.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// Send publishes a message, whose first frame is its topic. The frames must not be changed afterwards.
func (p *Publisher) Send(frames ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subs {
		if !s.wants(frames[0]) {
			continue
		}
		select {
		case s.queue <- frames:
		default: // it reads too slowly
		}
	}
}

// Close ends all connections.
func (p *Publisher) Close() {
	p.cancel()
	if p.listen != nil {
		p.listen.Close()
	}
	p.wait.Wait()
}
