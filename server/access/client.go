package access

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/internal/background"
)

// Client is the tenant that a request is from, and what it may do.
type Client struct {
	Tenant  string   // "" on a server without keys
	All     bool     // it sees what is every tenant's, and shares cached prompts with all
	Admin   bool     // it may read what the server tells of all tenants
	Manages bool     // it may change which models the server has: its key is marked admin, or none is needed
	limiter *limiter // nil: no limits
	address string   // it calls from, where there are no keys

	prompt, output, cached atomic.Int64 // tokens of this request
	first, decode          atomic.Int64 // ns until the first token of an answer, the earliest, and of the longest from there on
}

// Sees reports whether what is of an owner is the client's to see.
func (c *Client) Sees(owner string) bool { return c.All || c.Tenant == owner }

// Salt is what keeps the client's cached prompts and compiled grammars apart from those of other tenants; "": nothing.
func (c *Client) Salt() string {
	if c.All {
		return ""
	}
	return c.Tenant
}

// Begin takes a request against the tenant's limits, or refuses it with an *api.Error that says when to try again. end is to be called
// when the request is over.
func (c *Client) Begin() (end func(), err error) {
	if c.limiter == nil {
		return func() {}, nil
	}
	return c.limiter.begin()
}

// TakePrompt takes the tokens of a prompt before they are computed, or refuses them with an *api.Error.
func (c *Client) TakePrompt(tokens int) error {
	if c.limiter != nil {
		if err := c.limiter.take(tokens); err != nil {
			return err
		}
	}
	c.prompt.Add(int64(tokens))
	return nil
}

// CountOutput counts tokens of an answer. They are not refused: the next request waits for them.
func (c *Client) CountOutput(tokens int) {
	if c.limiter != nil {
		c.limiter.count(tokens)
	}
	c.output.Add(int64(tokens))
}

// Finished notes of an answer how many tokens of its prompt were cached, and the times until its first token and from there to its
// last.
func (c *Client) Finished(cached int, first, decode time.Duration) {
	c.cached.Add(int64(cached))
	if at := c.first.Load(); at == 0 || int64(first) < at {
		c.first.Store(int64(first))
	}
	c.decode.Store(max(c.decode.Load(), int64(decode)))
}

// Pace is what the request's answers took: tokens of prompts that were cached, the time until the first token (0: there was none), and
// tokens a second behind it.
func (c *Client) Pace() (cached int64, first time.Duration, rate float64) {
	if d := c.decode.Load(); d > 0 {
		rate = float64(c.output.Load()-1) / time.Duration(d).Seconds()
	}
	return c.cached.Load(), time.Duration(c.first.Load()), rate
}

// Tokens are what the request has taken so far.
func (c *Client) Tokens() (prompt, output int64) { return c.prompt.Load(), c.output.Load() }

// clientKey is under which a request's context has its client.
type clientKey struct{}

// With is a context that carries a client. What is done in the background for it takes turns with that of other tenants or, without keys, addresses.
func With(ctx context.Context, c *Client) context.Context {
	return context.WithValue(background.WithOwner(ctx, cmp.Or(c.Tenant, c.address)), clientKey{}, c)
}

// From is the client that a context carries. A context without one is of a client that sees nothing stored.
func From(ctx context.Context) *Client {
	if c, ok := ctx.Value(clientKey{}).(*Client); ok {
		return c
	}
	return &Client{}
}
