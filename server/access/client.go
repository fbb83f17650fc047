package access

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/ridge-llm/ridge/internal/background"
)

// Client is the tenant that a request is from, and what it may do.
type Client struct {
	Tenant  string   // "" on a server without keys
	All     bool     // it sees what is every tenant's, and shares cached prompts with all
	Admin   bool     // it may read what the server tells of all tenants
	limiter *limiter // nil: no limits
	address string   // it calls from, where there are no keys

	prompt, output atomic.Int64 // tokens of this request
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
