package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTime = 10 * time.Second // for a request's header to arrive
	idleTime   = 2 * time.Minute  // that a connection may wait for its next request
	maxHeader  = 64 << 10         // bytes
	drainTime  = 30 * time.Second // for the requests under way when the server is to stop
)

// Serve answers on a listener until ctx is done. Then it takes nothing new, lets what is under way end, for half a
// minute at most, and returns nil. When the model fails, requests get the error, and Serve returns it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	f := &front{}
	f.ready.Store(s) // the first request may be here already
	failed := make(chan error, 1)
	go s.watch(failed)
	return f.serve(ctx, l, s.Log, failed)
}

// watch reports when the model has failed.
func (s *Server) watch(failed chan<- error) {
	if err := s.Wait(); err != nil {
		failed <- err
	}
}

// ServeLoading is Serve for a server that load has yet to make. While load is at work, the listener is up and everything
// gets 503: /health then shows that the process lives and is not ready. ready is called once requests are answered.
func ServeLoading(ctx context.Context, l net.Listener, log *slog.Logger, load func() (*Server, error), ready func()) error {
	f := &front{}
	failed := make(chan error, 1)
	go func() {
		s, err := load()
		if err != nil {
			failed <- err
			return
		}
		f.ready.Store(s)
		ready()
		s.watch(failed)
	}()
	return f.serve(ctx, l, log, failed)
}

// serve answers until ctx is done, or loading has failed or the model.
func (f *front) serve(ctx context.Context, l net.Listener, log *slog.Logger, broken <-chan error) error {
	h := &http.Server{
		Handler: f, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case err := <-broken:
		if f.ready.Load() == nil {
			return errors.Join(err, h.Close())
		}
		log.Error("the model has failed and the server stops", "error", err)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		return errors.Join(err, h.Shutdown(limit)) // what is under way has ended with the error, which clients are still to get
	case <-ctx.Done():
	}
	s := f.ready.Load()
	if s == nil {
		log.Info("stopping before the model is loaded")
		return h.Close()
	}
	return s.stop(context.WithoutCancel(ctx), h)
}

// stop takes nothing new and waits for what is under way. What is not done in time is cut off.
func (s *Server) stop(ctx context.Context, h *http.Server) error {
	s.Log.Info("stopping", "running", s.Stats().Running, "waiting", s.Stats().Waiting)
	s.Close() // what is under way of batches is given up: it is done again
	limit, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err := errors.Join(s.Drain(limit), h.Shutdown(limit))
	if errors.Is(err, context.DeadlineExceeded) {
		s.Log.Warn("requests were cut off", "running", s.Stats().Running)
		return h.Close()
	}
	return err
}
