package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/route/upstream"
)

const (
	checkTimes = 3       // check intervals that a replica may take to answer a check
	patience   = 3       // checks in a row that a replica may let pass before it is away
	listEvery  = 10      // checks between two looks at a replica's models
	maxMetrics = 4 << 20 // bytes of an answer to a check
)

// check looks at a replica again and again: whether it is there, what it reports, which models it has.
func (rt *Router) check(ctx context.Context, r *replica) {
	silent := 0
	for n := 0; ; n++ {
		began := time.Now()
		err := rt.look(ctx, r, n%listEvery == 0)
		if ctx.Err() != nil {
			return
		}
		var told *toldError
		switch {
		case err == nil:
			silent = 0
		case errors.As(err, &told):
			silent = 0
			rt.setStatus(r, away, told.Error(), false)
		case errors.As(err, new(*upstream.DialError)) && !errors.Is(err, context.DeadlineExceeded):
			rt.setStatus(r, away, err.Error(), false)
			n = -1 // what comes back may have other models
		default: // it says nothing: it may be busy, or cut off
			if silent++; silent >= patience {
				rt.setStatus(r, away, fmt.Sprintf("it has not answered %d checks: %v", silent, err), true)
				n = -1
			}
		}
		wait := rt.options.Interval - time.Since(began)
		wait += time.Duration(rand.Int64N(int64(rt.options.Interval)/10 + 1)) // many routers need not ask at the same time
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(wait, rt.options.Interval/10)):
		}
	}
}

// toldError is a replica's own word that it takes no requests.
type toldError struct {
	status int
	body   string
}

// Error implements error.
func (e *toldError) Error() string {
	return fmt.Sprintf("/health says %d: %.200s", e.status, e.body)
}

// look checks a replica once.
func (rt *Router) look(ctx context.Context, r *replica, list bool) error {
	status, body, err := rt.ask(ctx, r, "/health")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return &toldError{status, string(body)}
	}
	f := figures{queue: -1}
	if status, body, err = rt.ask(ctx, r, "/metrics"); err == nil && status == http.StatusOK {
		f = readFigures(body, rt.options.Now())
	}
	var models []string
	if list {
		if status, body, err = rt.ask(ctx, r, "/v1/models"); err == nil && status == http.StatusOK {
			models = modelNames(body)
		}
	}
	rt.mu.Lock()
	if list {
		r.models = models
	}
	if r.figures = f; f.block > 0 {
		rt.block = f.block
	}
	rt.texts.SetRoom(r.place, r.room())
	rt.blocks.SetRoom(r.place, r.roomBlocks())
	if r.endpoint != "" && !r.following && r.models != nil {
		r.following = true
		rt.checks.Go(func() { rt.follow(r.ctx, r) })
	}
	rt.mu.Unlock()
	rt.setStatus(r, ready, "", false)
	return nil
}

// modelNames are the names in a list of models.
func modelNames(body []byte) (names []string) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names
}

// ask gets a path of a replica.
func (rt *Router) ask(ctx context.Context, r *replica, path string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimes*rt.options.Interval)
	defer cancel()
	q := &upstream.Request{Method: http.MethodGet, Path: path}
	if rt.options.ReplicaKey != "" {
		q.Set = [][2]string{{"Authorization", "Bearer " + rt.options.ReplicaKey}}
	}
	a, err := r.pool.Do(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	defer a.Close()
	body, err := io.ReadAll(io.LimitReader(a, maxMetrics))
	return a.StatusCode, body, err
}

// setStatus notes what a check has found. What is under way at a replica that is cut off is broken off: nobody else would end it.
func (rt *Router) setStatus(r *replica, s status, why string, cut bool) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if cut {
		r.pool.Cut()
	}
	if r.removed || !slices.Contains(rt.replicas, r) {
		return
	}
	if r.status != s {
		if s == away {
			rt.log.Warn("a replica is away", "replica", r.url, "why", why)
		} else {
			rt.log.Info("a replica is ready", "replica", r.url, "models", r.models)
		}
	}
	if s == away && r.status == ready && !cut {
		// A server that is started anew holds nothing. One that only stops for a while does; it is found out again by what is sent there.
		rt.texts.Cleared(r.place)
	}
	r.status, r.why = s, why
	rt.serveQueue()
}
