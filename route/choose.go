package route

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/ridge-llm/ridge/route/policy"
	"github.com/ridge-llm/ridge/route/prefix"
	"github.com/ridge-llm/ridge/route/prompt"
	"github.com/ridge-llm/ridge/server/api"
)

// errand is a request on its way to a replica.
type errand struct {
	ask     *prompt.Ask
	session uint64
	tried   []*replica // that have failed it

	replica  *replica
	uncached int // tokens of the prompt that the replica was not thought to have; 0 once it has begun to answer
}

// waiter is a request that waits for a replica to have room for it.
type waiter struct {
	errand *errand
	given  chan error // closed when the errand has its replica
}

// acquire finds a replica for the errand, and waits while all that could do it have as many requests as they may have.
func (rt *Router) acquire(ctx context.Context, e *errand) error {
	rt.mu.Lock()
	chosen, err := rt.choose(e)
	if err != nil || chosen {
		rt.mu.Unlock()
		return err
	}
	if len(rt.queue) >= rt.options.Queue {
		rt.mu.Unlock()
		return &api.Error{Status: http.StatusTooManyRequests, Retry: 1, Kind: "rate_limit_error", Code: "queue_full",
			Message: fmt.Sprintf("the replicas have %d requests each, the most that the router gives them, and %d wait; try again soon", rt.options.MaxInFlight, len(rt.queue))}
	}
	w := &waiter{errand: e, given: make(chan error, 1)}
	at, _ := slices.BinarySearchFunc(rt.queue, e.ask.Priority, func(o *waiter, p int) int {
		if o.errand.ask.Priority <= p { // behind those that are as urgent
			return -1
		}
		return 1
	})
	rt.queue = slices.Insert(rt.queue, at, w)
	rt.mu.Unlock()
	select {
	case err := <-w.given:
		return err
	case <-ctx.Done():
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if i := slices.Index(rt.queue, w); i >= 0 {
		rt.queue = slices.Delete(rt.queue, i, i+1)
	} else if <-w.given == nil { // it was given one meanwhile
		rt.giveBack(e)
	}
	return context.Cause(ctx)
}

// choose gives the errand a replica; false: all that could have it are full. rt.mu is held.
func (rt *Router) choose(e *errand) (bool, error) {
	chain := e.ask.Chain
	tree := rt.texts
	if e.ask.Blocks {
		tree = rt.blocks
	}
	depth := rt.depth[:]
	tree.Held(chain, depth)
	able, usual, now := false, rt.usual(), rt.options.Now()
	rt.views, rt.names, rt.able = rt.views[:0], rt.names[:0], rt.able[:0]
	for _, r := range rt.replicas {
		if r.status != ready || !r.serves(e.ask.Model) && rt.served(e.ask.Model) || slices.Contains(e.tried, r) {
			continue
		}
		able = true
		if most := rt.options.MaxInFlight; most > 0 && r.active >= most {
			continue
		}
		held := min(depth[r.place]*e.ask.Units, e.ask.Tokens)
		rt.views, rt.names, rt.able = append(rt.views, r.view(held, tree.Keys(r.place), usual, now)), append(rt.names, r.name), append(rt.able, r)
	}
	switch {
	case !able:
		return false, rt.nobody(e)
	case len(rt.able) == 0:
		return false, nil
	}
	q := policy.Request{Tokens: e.ask.Tokens, Session: e.session, Names: rt.names}
	i := rt.policy.Choose(&q, rt.views)
	r := rt.able[i]
	e.replica, e.uncached = r, e.ask.Tokens-rt.views[i].Held
	r.active++
	r.pending += e.uncached
	r.sent.Add(1)
	tree.Sent(r.place, chain)
	rt.figures.prompts.Add(float64(e.ask.Tokens))
	rt.figures.held.Add(float64(rt.views[i].Held))
	return true, nil
}

// usual is what a token of a prompt takes, s: the median of what replicas report or, if none does, as first answers came. rt.mu is held.
func (rt *Router) usual() float64 {
	var prices [prefix.MaxReplicas]float64
	some := prices[:0]
	for _, r := range rt.replicas {
		if r.figures.token > 0 {
			some = append(some, r.figures.token)
		}
	}
	switch {
	case len(some) > 0:
		slices.Sort(some)
		return some[(len(some)-1)/2]
	case rt.rate > 0:
		return float64(rt.rate)
	}
	return 1.0 / assumedRate
}

// served reports whether any replica that is there has a model. rt.mu is held.
func (rt *Router) served(model string) bool {
	return slices.ContainsFunc(rt.replicas, func(r *replica) bool { return r.status == ready && r.serves(model) })
}

// nobody says why there is no replica for an errand.
func (rt *Router) nobody(e *errand) error {
	if len(e.tried) > 0 {
		return &api.Error{Status: http.StatusBadGateway, Retry: 1, Kind: "server_error", Code: "replicas_failed", Message: "every replica that could answer failed before it began to; try again soon"}
	}
	return &api.Error{Status: http.StatusServiceUnavailable, Retry: 2, Kind: "server_error", Code: "no_replica", Message: "no replica is ready; /list_workers says why"}
}

// began notes that the errand's replica has begun to answer. took is since it was sent, s.
func (rt *Router) began(e *errand, took float64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	r := e.replica
	if e.uncached > 0 {
		if r.pending == e.uncached { // alone: nobody else's tokens are in the time
			rt.rate.add(took / float64(e.uncached))
		}
		r.pending -= e.uncached
		e.uncached = 0
	}
}

// release ends the errand at its replica.
func (rt *Router) release(e *errand) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.giveBack(e)
}

// giveBack is release with rt.mu held.
func (rt *Router) giveBack(e *errand) {
	r := e.replica
	if r == nil {
		return
	}
	e.replica = nil
	r.active--
	r.pending -= e.uncached
	e.uncached = 0
	if r.removed && r.active == 0 {
		rt.forget(r)
	}
	rt.serveQueue()
}

// serveQueue gives waiting requests what there is, the first by priority first. rt.mu is held.
func (rt *Router) serveQueue() {
	if len(rt.queue) == 0 {
		return
	}
	kept := rt.queue[:0]
	for _, w := range rt.queue {
		chosen, err := rt.choose(w.errand)
		if chosen || err != nil {
			w.given <- err
			continue
		}
		kept = append(kept, w)
	}
	clear(rt.queue[len(kept):])
	rt.queue = kept
}
