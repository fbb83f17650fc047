package route

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"

	"github.com/ridge-llm/ridge/route/policy"
	"github.com/ridge-llm/ridge/route/prefix"
	"github.com/ridge-llm/ridge/server/api"
)

// models is GET /v1/models: those of all replicas.
func (rt *Router) models(w http.ResponseWriter) {
	type model struct {
		ID     string `json:"id"`
		Object string `json:"object"`
		Owner  string `json:"owned_by"`
	}
	all := []model{}
	rt.mu.Lock()
	for _, r := range rt.replicas {
		for _, name := range r.models {
			if r.status == ready && !slices.ContainsFunc(all, func(m model) bool { return m.ID == name }) {
				all = append(all, model{name, "model", "ridge"})
			}
		}
	}
	rt.mu.Unlock()
	api.WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": all})
}

// toAll sends a request to every replica that is there, as adapters are loaded everywhere. The answer is the first that is an error, or else the first.
func (rt *Router) toAll(w http.ResponseWriter, r *http.Request, c *call) {
	body, err := api.RawBody(w, r, nil)
	if err != nil {
		rt.fail(w, r, err)
		return
	}
	rt.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(rt.replicas), func(r *replica) bool { return r.status != ready })
	rt.mu.Unlock()
	if len(all) == 0 {
		rt.fail(w, r, rt.nobody(&errand{}))
		return
	}
	type answer struct {
		status int
		header http.Header
		body   []byte
		err    error
	}
	answers := make([]answer, len(all))
	var wait sync.WaitGroup
	for i, replica := range all {
		wait.Go(func() {
			x := &answers[i]
			a, err := replica.pool.Do(r.Context(), rt.request(r, c, body))
			if x.err = err; err != nil {
				return
			}
			defer a.Close()
			x.status, x.header = a.StatusCode, a.Header
			x.body, x.err = io.ReadAll(io.LimitReader(a, maxMetrics))
		})
	}
	wait.Wait()
	said := answers[0]
	for i, x := range answers {
		if x.err != nil {
			rt.fail(w, r, &api.Error{Status: http.StatusBadGateway, Kind: "server_error", Code: "replica_lost", Message: "the replica " + all[i].url + " did not answer; others may have done what was asked: send the request again"})
			return
		}
		if x.status >= 400 && said.status < 400 {
			said = x
		}
	}
	rt.relist(all)
	copyHeader(w.Header(), said.header)
	w.WriteHeader(said.status)
	_, _ = w.Write(said.body) // the client may have gone
}

// relist has the models of replicas looked at again: an adapter is a model.
func (rt *Router) relist(all []*replica) {
	for _, r := range all {
		status, body, err := rt.ask(rt.ctx, r, "/v1/models")
		if err != nil || status != http.StatusOK {
			continue
		}
		rt.mu.Lock()
		r.models = modelNames(body)
		rt.mu.Unlock()
	}
}

// toHome sends a request about files or batches to the replica that keeps those of its client: the same as long as the replicas are the same.
// Bodies may be large, so they go through as they come.
func (rt *Router) toHome(w http.ResponseWriter, r *http.Request, c *call) {
	owner := c.client.Tenant
	if !rt.keys.Needed() {
		owner = r.Header.Get("Authorization")
	}
	rt.mu.Lock()
	var home *replica
	if len(rt.replicas) > 0 {
		names := make([]uint64, len(rt.replicas))
		for i, r := range rt.replicas {
			names[i] = r.name
		}
		home = rt.replicas[policy.Rendezvous(uint64(prefix.Hash(0, owner)), names)]
	}
	there := home != nil && home.status == ready
	rt.mu.Unlock()
	if !there {
		rt.fail(w, r, &api.Error{Status: http.StatusServiceUnavailable, Retry: 5, Kind: "server_error", Code: "no_replica", Message: "the replica that keeps your files and batches is away; try again later"})
		return
	}
	to, err := url.Parse(home.url)
	if err != nil {
		rt.fail(w, r, err)
		return
	}
	q := rt.request(r, c, nil)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			for _, f := range q.Set {
				if p.Out.Header.Del(f[0]); f[1] != "" {
					p.Out.Header.Set(f[0], f[1])
				}
			}
		},
		ModifyResponse: func(a *http.Response) error { a.Header.Del("X-Request-Id"); return nil },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			rt.fail(w, r, &api.Error{Status: http.StatusBadGateway, Retry: 1, Kind: "server_error", Code: "replica_lost", Message: "the replica that keeps your files and batches did not answer"})
		},
	}
	proxy.ServeHTTP(w, r)
}
