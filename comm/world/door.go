package world

import (
	"errors"
	"net"
	"sync"
	"time"
)

// door accepts connections for a while, each after its handshake, and hands them to whoever waits for their purpose.
type door struct {
	listener net.Listener
	secret   []byte
	note     func(text string)
	mu       sync.Mutex
	came     map[purpose]net.Conn
	shaking  map[net.Conn]struct{}
	changed  chan struct{} // closed and made anew when one has come
	closed   bool
	busy     sync.WaitGroup
}

// maxShaking is how many callers are heard at once; more wait until a handshake is over, which takes handshake.Timeout at most.
const maxShaking = 256

const acceptPause = 10 * time.Millisecond

func newDoor(l net.Listener, secret []byte, note func(string)) *door {
	d := &door{listener: l, secret: secret, note: note, came: map[purpose]net.Conn{}, shaking: map[net.Conn]struct{}{}, changed: make(chan struct{})}
	d.busy.Go(d.open)
	return d
}

func (d *door) open() {
	shaking := make(chan struct{}, maxShaking)
	for {
		conn, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of this connection, or too many files are open
			time.Sleep(acceptPause)
			continue
		}
		shaking <- struct{}{}
		d.busy.Go(func() {
			defer func() { <-shaking }()
			if !d.begin(conn) {
				return
			}
			p, err := answer(conn, d.secret)
			if !d.end(conn) {
				return
			}
			if err != nil {
				conn.Close()
				d.note("a caller from " + conn.RemoteAddr().String() + " was turned away: " + err.Error())
				return
			}
			d.enter(p, conn)
		})
	}
}

// begin notes a handshake that close ends, and end that it is over; false: the door is closed, and so is the connection.
func (d *door) begin(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		conn.Close()
		return false
	}
	d.shaking[conn] = struct{}{}
	return true
}

func (d *door) end(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.shaking, conn)
	if d.closed {
		conn.Close()
	}
	return !d.closed
}

// enter keeps a connection until it is asked for. A second one for the same is turned away.
func (d *door) enter(p purpose, conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, twice := d.came[p]; twice || d.closed {
		conn.Close()
		return
	}
	d.came[p] = conn
	close(d.changed)
	d.changed = make(chan struct{})
}

// next is a connection of a purpose that fits; nil when none has come by then, or stop is closed.
func (d *door) next(fits func(purpose) bool, until time.Time, stop <-chan struct{}) (purpose, net.Conn) {
	timeout := time.After(time.Until(until))
	for {
		d.mu.Lock()
		for p, conn := range d.came {
			if conn != nil && fits(p) {
				d.came[p] = nil // stays known: another one is a second
				d.mu.Unlock()
				return p, conn
			}
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			return purpose{}, nil
		case <-stop:
			return purpose{}, nil
		}
	}
}

// close accepts no more, and closes what nobody has asked for.
func (d *door) close() {
	d.listener.Close()
	d.mu.Lock()
	d.closed = true
	for conn := range d.shaking {
		conn.Close()
	}
	for _, conn := range d.came {
		if conn != nil {
			conn.Close()
		}
	}
	d.mu.Unlock()
	d.busy.Wait()
}
