package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

const (
	headerTime = 10 * time.Second // for a request's header to arrive
	idleTime   = 2 * time.Minute  // that a connection may wait for its next request
	maxHeader  = 64 << 10         // bytes
	drainTime  = 30 * time.Second // for the requests under way when the server is to stop; see Options.Drain
	lastTime   = 5 * time.Second  // for clients to get the error of requests that were cut off
)

// Serve answers on a listener until ctx is done. Then it takes nothing new, lets what is under way end, for half a
// minute at most, and returns nil; or an error when it had to cut requests off. When the model fails, requests get the error, and Serve
// returns it; when a file of the model was changed, the server stays, and answers with that until it is replaced.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	f := NewFront(s.Log)
	f.Replace(s) // the first request may be here already
	return f.serve(ctx, l)
}

// ServeLoading is Serve for a server that load has yet to make. While load is at work, the listener is up and everything
// gets 503: /health then shows that the process lives and is not ready. ready is called once requests are answered.
func (f *Front) ServeLoading(ctx context.Context, l net.Listener, load func() (Site, error), ready func()) error {
	go func() {
		s, err := load()
		if err != nil {
			f.fail(err)
			return
		}
		f.Replace(s)
		ready()
	}()
	return f.serve(ctx, l)
}

// watch reports when the model of a server has failed.
func (f *Front) watch(s Site) {
	err := s.Wait()
	switch {
	case err == nil || f.Current() != s: // it was closed or replaced
	case errors.Is(err, ridge.ErrModelFile):
		f.log.Error("a file of the model was changed while it was in use; requests are answered with 503 until the model is loaded again (SIGHUP)", "error", err)
	default:
		f.fail(err)
	}
}

// fail notes why the front cannot go on; the first reason counts.
func (f *Front) fail(err error) {
	select {
	case f.failed <- err:
	default:
	}
}

// serve answers until ctx is done, or loading has failed or the model.
func (f *Front) serve(ctx context.Context, l net.Listener) error {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	h := &http.Server{
		Handler: f, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return base },
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case err := <-f.failed:
		if f.Current() == nil {
			return errors.Join(err, h.Close())
		}
		f.log.Error("the model has failed and the server stops", "error", err)
		limit, cancel := context.WithTimeout(base, drainTime)
		defer cancel()
		return errors.Join(err, h.Shutdown(limit)) // what is under way has ended with the error, which clients are still to get
	case <-ctx.Done():
	}
	s := f.Current()
	if s == nil {
		f.log.Info("stopping before the model is loaded")
		return h.Close()
	}
	return stop(s, base, h, cut)
}

// stop takes nothing new and waits for what is under way. What is not done in time is cut off, with an answer that says so.
func stop(s Site, ctx context.Context, h *http.Server, cut func(error)) error {
	e := s.settings()
	e.Log.Info("stopping", "requests", s.requests())
	s.Close() // what is under way of batches is given up: it is done again
	limit, cancel := context.WithTimeout(ctx, e.options.Drain)
	defer cancel()
	err := errors.Join(s.Drain(limit), h.Shutdown(limit))
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	n := s.requests()
	cut(api.CutOff)
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancelLast()
	if h.Shutdown(last) != nil { // a client that does not read its error
		err = h.Close()
	} else {
		err = nil
	}
	return errors.Join(fmt.Errorf("server: %d requests were cut off after %v", n, e.options.Drain), err)
}
