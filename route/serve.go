package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTime = 10 * time.Second // for a request's header to arrive
	idleTime   = 2 * time.Minute  // that a connection may wait for its next request
	maxHeader  = 64 << 10         // bytes
	saveTime   = 30 * time.Second // between two saves of the state
)

// Serve answers on a listener until ctx is done. Then it takes nothing new and lets what is under way end, for Options.Drain at most; what has
// not ended is cut off, which is an error.
func (rt *Router) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler: rt, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(rt.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	save := time.NewTicker(saveTime)
	defer save.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-save.C:
			if rt.options.State == "" {
				continue
			}
			if err := rt.save(); err != nil {
				rt.log.Error("the state was not saved", "error", err)
			}
			continue
		case <-ctx.Done():
		}
		break
	}
	rt.mu.Lock()
	n := 0
	for _, r := range rt.replicas {
		n += r.active
	}
	rt.mu.Unlock()
	rt.log.Info("stopping", "active", n)
	var saved error
	if rt.options.State != "" {
		saved = rt.save() // before the wait: a router that takes over is started now
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), rt.options.Drain)
	defer cancel()
	if err := h.Shutdown(limit); err != nil {
		return errors.Join(saved, fmt.Errorf("route: requests were cut off after %v", rt.options.Drain), h.Close())
	}
	return saved
}
