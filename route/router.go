// Package route puts one address before many servers: Ridge's own, vLLM's, or any with their APIs. It knows no models.
//
//	request ─► key, limits (server/access) ─► model, chain of the prompt (prompt) ─► replica (choose.go, policy, prefix)
//	        ─► upstream ─► events as they come (relay.go)
//
//	health.go    which replicas are there, and what they report
//	workers.go   which there are to be; draining
//	state.go     what a restarted router goes on from
package route

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/route/policy"
	"github.com/ridge-llm/ridge/route/prefix"
	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
)

// Options are a router's settings.
type Options struct {
	Replicas    []string                              // their URLs
	Prefill     []string                              // URLs of servers that compute prompts, from which replicas go on; none: replicas compute them
	PrefillFrom int                                   // tokens of a prompt, as the router guesses them, from which on it is computed there
	Policy      policy.Policy                         // by which one is chosen
	SessionKey  string                                // header that names a client's session, for the policy session
	MaxInFlight int                                   // requests that a replica is given at once; 0: any number
	Queue       int                                   // requests that wait while all have so many
	Retries     int                                   // at other replicas, of a request that was not begun to be answered
	Interval    time.Duration                         // between checks of a replica
	ReplicaKey  string                                // API key that replicas are shown in place of the client's; "": the client's
	Keys        []access.Key                          // of which clients must send one; none: no key is needed
	Browser     access.Browser                        // what browsers may do where there are no keys
	Shape       func(path string, err *api.Error) any // an error in the shape of the API that a path belongs to
	Log         *slog.Logger                          // nil: nothing is logged
	State       string                                // file that a restarted router goes on from; "": none
	Drain       time.Duration                         // that requests under way have to end when the router is to stop
	Now         func() time.Time                      // nil: time.Now
}

// Router answers requests with the replicas' answers.
type Router struct {
	options Options
	respond *api.Responder
	keys    *access.Ring
	log     *slog.Logger
	figures *metrics
	ctx     context.Context // of the checks
	end     context.CancelFunc
	checks  sync.WaitGroup
	prefill *prefillers

	mu       sync.Mutex
	replicas []*replica
	policy   policy.Policy
	texts    *prefix.Tree // by what was sent, in units of text
	blocks   *prefix.Tree // by what replicas say, in blocks of tokens
	rate     average      // s a token of a prompt, as first answers came
	block    int          // tokens of a block; 0: no replica has said
	queue    []*waiter    // the first to be served first
	views    []policy.Replica
	names    []uint64
	able     []*replica
	depth    [prefix.MaxReplicas]int
}

// New makes a router and begins to check its replicas. It must be closed.
func New(o Options) (*Router, error) {
	o.Interval, o.Drain = cmp.Or(o.Interval, time.Second), cmp.Or(o.Drain, 30*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	rt := &Router{options: o, log: o.Log, keys: access.NewRing(o.Keys, false, o.Now), policy: o.Policy, texts: prefix.New(), blocks: prefix.New()}
	var err error
	if rt.prefill, err = newPrefillers(o.Prefill, o.PrefillFrom); err != nil {
		return nil, err
	}
	rt.respond = &api.Responder{Log: o.Log, Shape: o.Shape}
	rt.figures = newMetrics(rt)
	rt.ctx, rt.end = context.WithCancel(context.Background())
	for _, url := range o.Replicas {
		if err := rt.Add(url); err != nil {
			rt.Close()
			return nil, err
		}
	}
	if o.State != "" {
		if err := rt.restore(); err != nil {
			rt.Close()
			return nil, err
		}
	}
	return rt, nil
}

// SetKeys replaces the API keys, for requests that come from now on. There must be some if there were some.
func (rt *Router) SetKeys(keys []access.Key) error {
	if rt.keys.Needed() && len(keys) == 0 {
		return errors.New("route: the file of keys has none, and without keys the router would answer every client; restart it for that")
	}
	rt.keys.Set(keys)
	return nil
}

// Close ends the checks and all requests under way.
func (rt *Router) Close() {
	rt.end()
	rt.mu.Lock()
	all := append([]*replica(nil), rt.replicas...)
	rt.mu.Unlock()
	for _, r := range all {
		r.pool.Close()
	}
	rt.prefill.close()
	rt.checks.Wait()
}

// open are the paths that need no key.
func open(path string) bool { return path == "/health" }

// ofAdmins are the paths that tell of all tenants, or change what there is for all.
func ofAdmins(path string) bool {
	switch path {
	case "/metrics", "/list_workers", "/add_worker", "/remove_worker", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/reset_prefix_cache":
		return true
	}
	return false
}

// ServeHTTP implements http.Handler.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 {
		id = rand.Text()
	}
	w.Header().Set("X-Request-Id", id)
	client, ok := rt.keys.Client(r)
	switch {
	case !rt.keys.Needed():
		if err := rt.options.Browser.Check(r); err != nil && !open(r.URL.Path) {
			rt.fail(w, r, err)
			return
		}
	case open(r.URL.Path) && !ok:
		client = &access.Client{}
	case !ok:
		w.Header().Set("WWW-Authenticate", "Bearer")
		rt.fail(w, r, &api.Error{Status: http.StatusUnauthorized, Kind: "authentication_error", Code: "invalid_api_key", Message: "the API key is missing or wrong; send it as Authorization: Bearer KEY"})
		return
	}
	if ofAdmins(r.URL.Path) && !client.Admin {
		rt.fail(w, r, &api.Error{Status: http.StatusForbidden, Kind: "permission_error", Code: "not_admin", Message: r.URL.Path + " is of all keys; use a key that is marked admin in the file of keys"})
		return
	}
	if r.Method == http.MethodPost {
		end, err := client.Begin()
		if err != nil {
			rt.fail(w, r, err)
			return
		}
		defer end()
	}
	rt.dispatch(w, r, &call{id: id, client: client, arrived: arrived})
}

// call is what a request has beside HTTP.
type call struct {
	id      string
	client  *access.Client
	arrived time.Time
}

// dispatch answers a request by its path.
func (rt *Router) dispatch(w http.ResponseWriter, r *http.Request, c *call) {
	switch path := r.URL.Path; {
	case path == "/health":
		rt.health(w)
	case path == "/metrics":
		rt.figures.handler.ServeHTTP(w, r)
	case path == "/list_workers", path == "/add_worker", path == "/remove_worker":
		rt.workers(w, r)
	case path == "/v1/models" && r.Method == http.MethodGet:
		rt.models(w)
	case path == "/v1/load_lora_adapter", path == "/v1/unload_lora_adapter", path == "/reset_prefix_cache":
		rt.toAll(w, r, c)
	case strings.HasPrefix(path, "/v1/files"), strings.HasPrefix(path, "/v1/batches"):
		rt.toHome(w, r, c)
	case path == "/", path == "/stats", path == "/steps":
		rt.fail(w, r, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "not_found", Message: path + " is of one server; ask a replica for it (/list_workers names them)"})
	default:
		rt.toOne(w, r, c)
	}
}

// fail answers with an error.
func (rt *Router) fail(w http.ResponseWriter, r *http.Request, err error) { rt.respond.Fail(w, r, err) }

// health is GET /health: whether any replica takes requests.
func (rt *Router) health(w http.ResponseWriter) {
	rt.mu.Lock()
	n, all := rt.count(ready), len(rt.replicas)
	rt.mu.Unlock()
	status, word := http.StatusOK, "ok"
	if n == 0 {
		status, word = http.StatusServiceUnavailable, "no replica is ready"
	}
	api.WriteJSON(w, status, map[string]any{"status": word, "ready": n, "replicas": all})
}

// count is how many replicas have a status. rt.mu is held.
func (rt *Router) count(s status) (n int) {
	for _, r := range rt.replicas {
		if r.status == s {
			n++
		}
	}
	return n
}
