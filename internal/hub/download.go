package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// connections is how many ranges of a file are fetched at once.
const connections = 8

// stall is how long a connection may bring nothing before it is given up.
const stall = 30 * time.Second

// download is one file on its way into its journal.
type download struct {
	hub     *Hub
	ref     Ref
	file    File
	address string
	journal *journal
	count   func(n int64) // told of bytes that came, less than 0 when they have to come again
}

// address is where a file of a snapshot is.
func (s *snapshot) address(h *Hub, f File) string {
	parts := strings.Split(f.Path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return h.Endpoint + "/" + s.repo + "/resolve/" + s.commit + "/" + strings.Join(parts, "/")
}

// run fetches the chunks that are missing. The first alone: it shows whether the server has ranges.
func (d *download) run(ctx context.Context) error {
	if i, ok := d.journal.take(); ok {
		if err := d.chunk(ctx, i); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for range connections {
		g.Go(func() error {
			for {
				i, ok := d.journal.take()
				if !ok {
					return nil
				}
				if err := d.chunk(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// chunk fetches chunk i, going on after a dropped connection where it broke off.
func (d *download) chunk(ctx context.Context, i int) error {
	at, to := d.journal.bounds(i)
	last := at
	moved := func() bool { m := at > last; last = at; return m }
	return d.hub.patiently(ctx, moved, func() error {
		if d.isDone(i) {
			return nil // a server without ranges has sent it with an earlier one
		}
		// A connection that brings nothing for a while is closed, which ends the reading below.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := d.hub.request(ctx, d.address, fmt.Sprintf("bytes=%d-%d", at, to-1))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body := newWatched(resp.Body, cancel)
		defer body.stop()
		switch resp.StatusCode {
		case http.StatusPartialContent:
			if err := d.checkRange(resp, at); err != nil {
				return err
			}
			n, err := d.copy(body, at, to)
			if at += n; err != nil || at < to {
				return d.broken(err)
			}
			return d.journal.finish(i)
		case http.StatusOK:
			return d.everything(body)
		}
		return d.hub.refused(d.ref, d.file.Path, resp)
	})
}

func (d *download) isDone(i int) bool {
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	return d.journal.done[i]
}

// checkRange refuses a part of another file than the one that was listed.
func (d *download) checkRange(resp *http.Response, at int64) error {
	var from, to, size int64
	got := resp.Header.Get("Content-Range")
	if _, err := fmt.Sscanf(got, "bytes %d-%d/%d", &from, &to, &size); err != nil || from != at || size != d.file.Size {
		return fmt.Errorf("hub: %s sends %q of %s, where bytes from %d of %d were asked for", resp.Request.URL.Host, got, d.file.Path, at, d.file.Size)
	}
	return nil
}

// everything takes a reply that has the whole file, though a part was asked for.
func (d *download) everything(body io.Reader) error {
	for i := range d.journal.done {
		from, to := d.journal.bounds(i)
		if d.isDone(i) {
			if _, err := io.CopyN(io.Discard, body, to-from); err != nil {
				return d.broken(err)
			}
			continue
		}
		if n, err := d.copy(body, from, to); err != nil || n < to-from {
			d.count(-n) // it will come again
			return d.broken(err)
		}
		if err := d.journal.finish(i); err != nil {
			return err
		}
	}
	return nil
}

// broken is the error of a connection that ended too early.
func (d *download) broken(err error) error {
	if local := (*localError)(nil); errors.As(err, &local) {
		return local.err
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &passing{err: fmt.Errorf("hub: the connection for %s broke: %w", d.file.Path, err)}
}

// localError is a fault of this machine's, which a new connection does not mend.
type localError struct{ err error }

// Error implements error.
func (e *localError) Error() string { return e.err.Error() }

// copy writes what comes to the places from at up to to; n is how many bytes did.
func (d *download) copy(body io.Reader, at, to int64) (n int64, err error) {
	buf := make([]byte, 64<<10)
	for at < to {
		k, err := body.Read(buf[:min(int64(len(buf)), to-at)])
		if k > 0 {
			if _, err := d.journal.data.WriteAt(buf[:k], at); err != nil {
				return n, &localError{fmt.Errorf("hub: %w", err)}
			}
			at, n = at+int64(k), n+int64(k)
			d.count(int64(k))
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// watched is a body whose request is cancelled when it brings nothing for a while.
type watched struct {
	body   io.Reader
	timer  *time.Timer
	silent atomic.Bool
}

func newWatched(body io.Reader, cancel func()) *watched {
	w := &watched{body: body}
	w.timer = time.AfterFunc(stall, func() { w.silent.Store(true); cancel() })
	return w
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 {
		w.timer.Reset(stall)
	}
	if err != nil && w.silent.Load() {
		err = fmt.Errorf("nothing came for %v", stall)
	}
	return n, err
}

func (w *watched) stop() { w.timer.Stop() }
