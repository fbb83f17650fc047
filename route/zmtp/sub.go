package zmtp

import (
	"context"
	"net"
	"sync"
)

// Subscribe connects to a PUB socket, again and again until ctx is done, and has each called with every message of all topics. began is called with
// each new connection: what was sent in between is missed.
func Subscribe(ctx context.Context, endpoint string, began func(), each func(frames [][]byte)) error {
	address, _, err := Address(endpoint)
	if err != nil {
		return err
	}
	redial(ctx, address, func(raw net.Conn) {
		stop := context.AfterFunc(ctx, func() { raw.Close() })
		defer stop()
		c, err := handshake(raw, "SUB")
		if err != nil {
			return
		}
		defer c.Close()
		if c.send([]byte{1}) != nil {
			return
		}
		began()
		for {
			frames, err := c.receive()
			if err != nil {
				return
			}
			each(frames)
		}
	})
	return ctx.Err()
}

// Replier is a ROUTER socket that answers requests of REQ and DEALER sockets with any number of messages.
type Replier struct {
	listen net.Listener
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// NewReplier listens at an endpoint. answer is called with a request's frames after the empty one, and calls send with each message, until that fails.
func NewReplier(endpoint string, answer func(frames [][]byte, send func(frames ...[]byte) error)) (*Replier, error) {
	address, _, err := Address(endpoint)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Replier{listen: l, cancel: cancel}
	r.wait.Go(func() {
		accept(ctx, l, &r.wait, func(raw net.Conn) {
			stop := context.AfterFunc(ctx, func() { raw.Close() })
			defer stop()
			c, err := handshake(raw, "ROUTER")
			if err != nil {
				return
			}
			defer c.Close()
			for {
				frames, err := c.receive()
				if err != nil {
					return
				}
				if len(frames) < 2 || len(frames[0]) != 0 {
					continue
				}
				failed := false
				answer(frames[1:], func(all ...[]byte) error {
					err := c.send(append([][]byte{nil}, all...)...)
					failed = failed || err != nil
					return err
				})
				if failed {
					return
				}
			}
		})
	})
	return r, nil
}

// Addr is where it listens.
func (r *Replier) Addr() net.Addr { return r.listen.Addr() }

// Close ends all connections.
func (r *Replier) Close() {
	r.cancel()
	r.listen.Close()
	r.wait.Wait()
}
