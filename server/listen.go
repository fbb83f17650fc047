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
// minute at most, and returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.log.Info("stopping", "running", s.model.Stats().Running, "waiting", s.model.Stats().Waiting)
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	// What is not done in time is cut off by Close.
	err := errors.Join(s.model.Drain(limit), h.Shutdown(limit))
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were cut off", "running", s.model.Stats().Running)
		return h.Close()
	}
	return err
}
