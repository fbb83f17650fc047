package engine

import "github.com/ridge-llm/ridge/engine/sched"

// cache answers what scheduling asks of the account of pages; it implements sched.Cache.
type cache struct{ *Engine }

// Available implements sched.Cache.
func (c cache) Available() int { return c.pool.Available() }

// Need implements sched.Cache.
func (c cache) Need(r *sched.Request, tokens int) int {
	return c.pool.Need(&c.byID[r.ID].seq, tokens)
}

// Returns implements sched.Cache.
func (c cache) Returns(r *sched.Request) int { return c.pool.Returns(&c.byID[r.ID].seq) }

// Match implements sched.Cache.
func (c cache) Match(r *sched.Request) (tokens, idle int) {
	q := c.byID[r.ID]
	return c.pool.Match(q.Salt, c.shareable(q))
}
