package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Ring is the keys that a server knows now. Any number of goroutines may use it.
type Ring struct {
	shared bool
	now    func() time.Time
	table  atomic.Pointer[table]
}

// table is the keys as they were set last.
type table struct {
	keys     []Key
	limiters map[string]*limiter // by name of tenant
	many     bool                // there are several tenants
}

// NewRing makes a ring of keys; none: every request is taken. shared says that all tenants see each other's files, batches and
// explanations, and share cached prompts; limits stay per tenant. now is the clock of the limits.
func NewRing(keys []Key, shared bool, now func() time.Time) *Ring {
	r := &Ring{shared: shared, now: now}
	r.Set(keys)
	return r
}

// Set replaces the keys. What a tenant has used of its limits, and its requests under way, stay counted.
func (r *Ring) Set(keys []Key) {
	next := &table{keys: keys, limiters: map[string]*limiter{}, many: len(tenants(keys)) > 1}
	before := r.table.Load()
	for _, k := range keys {
		if next.limiters[k.Name] != nil {
			continue
		}
		m := newLimiter(r.now)
		if before != nil && before.limiters[k.Name] != nil {
			m = before.limiters[k.Name]
		}
		m.limit(k.Limits)
		next.limiters[k.Name] = m
	}
	r.table.Store(next)
}

// Needed reports whether requests have to show a key.
func (r *Ring) Needed() bool { return len(r.table.Load().keys) > 0 }

// Client finds which tenant a request is from; ok is false if it shows no valid key and one is needed.
func (r *Ring) Client(q *http.Request) (c *Client, ok bool) {
	t := r.table.Load()
	if len(t.keys) == 0 {
		c := r.Anyone()
		c.address = q.RemoteAddr
		if host, _, err := net.SplitHostPort(q.RemoteAddr); err == nil {
			c.address = host
		}
		return c, true
	}
	digest := sha256.Sum256([]byte(shownKey(q.Header)))
	found := -1
	for i := range t.keys { // all of them, so that the time does not tell which is alike
		if subtle.ConstantTimeCompare(digest[:], t.keys[i].digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return nil, false
	}
	k := &t.keys[found]
	return &Client{Tenant: k.Name, All: r.shared, Admin: k.Admin || r.shared || !t.many, Manages: k.Admin, limiter: t.limiters[k.Name]}, true
}

// Anyone is the client of a server without keys.
func (r *Ring) Anyone() *Client { return &Client{All: true, Admin: true, Manages: true} }

// Owner is the client for which a server works on its own, on the lines of a tenant's batch. Limits do not count: batches have
// the lowest priority anyway, and their number is limited.
func (r *Ring) Owner(tenant string) *Client { return &Client{Tenant: tenant, All: r.shared} }

// shownKey is the key that a request shows. The scheme's name may have any case (RFC 9110, section 11.1).
func shownKey(h http.Header) string {
	const scheme = "bearer "
	if text := h.Get("Authorization"); len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
		return strings.TrimSpace(text[len(scheme):])
	}
	return cmp.Or(h.Get("X-Api-Key"), h.Get("Api-Key")) // Anthropic's, Azure's
}
