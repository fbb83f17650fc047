package route

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/route/prefix"
	"github.com/ridge-llm/ridge/server/api"
)

// Add adds a replica, by its URL and perhaps, after a comma, the endpoint of its cache events. It gets requests once a check has found it.
func (rt *Router) Add(named string) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	url, _, _ := strings.Cut(named, ",")
	url = strings.TrimRight(url, "/")
	if i := slices.IndexFunc(rt.replicas, func(r *replica) bool { return r.url == url }); i >= 0 {
		if !rt.replicas[i].removed {
			return fmt.Errorf("route: the replica %s is there already", url)
		}
		return fmt.Errorf("route: the replica %s is being drained; add it again when it has gone", url)
	}
	place := 0
	for slices.ContainsFunc(rt.replicas, func(r *replica) bool { return r.place == place }) {
		place++
	}
	if place >= prefix.MaxReplicas {
		return fmt.Errorf("route: there are %d replicas, the most that a router can have; put a second router beside this one", prefix.MaxReplicas)
	}
	r, err := newReplica(named, place)
	if err != nil {
		return err
	}
	r.ctx, r.stop = context.WithCancel(rt.ctx)
	rt.texts.SetRoom(place, r.room())
	rt.replicas = append(rt.replicas, r)
	rt.checks.Go(func() { rt.check(r.ctx, r) })
	return nil
}

// Remove gives a replica nothing new, and forgets it once what it has been given has ended.
func (rt *Router) Remove(url string) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	url = strings.TrimRight(url, "/")
	i := slices.IndexFunc(rt.replicas, func(r *replica) bool { return r.url == url })
	if i < 0 {
		return fmt.Errorf("route: there is no replica %s; /list_workers names those there are", url)
	}
	r := rt.replicas[i]
	r.removed, r.status, r.why = true, draining, "it was removed"
	if r.active == 0 {
		rt.forget(r)
	}
	rt.serveQueue()
	return nil
}

// forget drops a replica. rt.mu is held.
func (rt *Router) forget(r *replica) {
	r.stop()
	rt.replicas = slices.DeleteFunc(rt.replicas, func(o *replica) bool { return o == r })
	rt.texts.Cleared(r.place)
	rt.blocks.Cleared(r.place)
	r.pool.Close()
}

// worker is a replica as /list_workers tells of it.
type worker struct {
	URL      string   `json:"url"`
	Status   string   `json:"status"`
	Why      string   `json:"why,omitempty"`
	Models   []string `json:"models"`
	Active   int      `json:"active"`
	Pending  int      `json:"pending_tokens"`
	Queue    float64  `json:"queue_seconds"`
	Token    float64  `json:"prompt_token_seconds"`
	Usage    float64  `json:"cache_usage"`
	Units    int      `json:"units_held"`
	Blocks   int      `json:"blocks_held"`
	Events   bool     `json:"kv_events"`
	Sent     int64    `json:"sent"`
	Failed   int64    `json:"failed"`
	Reported bool     `json:"reports"`
}

// list is what there is to say of all replicas.
func (rt *Router) list() []worker {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	all := make([]worker, 0, len(rt.replicas))
	for _, r := range rt.replicas {
		v := r.view(0, 0, rt.usual(), rt.options.Now())
		all = append(all, worker{URL: r.url, Status: r.status.String(), Why: r.why, Models: r.models, Active: r.active, Pending: r.pending, Queue: v.Queue, Token: v.Token, Usage: r.figures.usage,
			Units: rt.texts.Keys(r.place), Blocks: rt.blocks.Keys(r.place), Events: r.events, Sent: r.sent.Load(), Failed: r.failed.Load(), Reported: !r.figures.at.IsZero()})
	}
	return all
}

// workers answers /list_workers, and POST to /add_worker?url= and /remove_worker?url=, as SGLang's router has them.
func (rt *Router) workers(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/list_workers" {
		api.WriteJSON(w, http.StatusOK, map[string]any{"workers": rt.list()})
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		rt.fail(w, r, &api.Error{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error", Code: "method_not_allowed", Message: r.URL.Path + " wants POST"})
		return
	}
	change := rt.Add
	if r.URL.Path == "/remove_worker" {
		change = rt.Remove
	}
	url := r.URL.Query().Get("url")
	if url == "" {
		rt.fail(w, r, api.Invalid("url", "%s wants the replica's address: ?url=http://HOST:PORT", r.URL.Path))
		return
	}
	if err := change(url); err != nil {
		rt.fail(w, r, api.Invalid("url", "%s", strings.TrimPrefix(err.Error(), "route: ")))
		return
	}
	rt.log.Info("replicas were changed", "path", r.URL.Path, "replica", url)
	api.WriteJSON(w, http.StatusOK, map[string]any{"workers": rt.list()})
}
