package engine

import "github.com/ridge-llm/ridge/engine/sched"

// The scheduler knows the pages of one cache group, the main one: that which keeps most of every sequence. The others cannot run out
// before it does; see pages.go.

// cache answers what scheduling asks of the account of pages; it implements sched.Cache.
type cache struct{ *Engine }

// Available implements sched.Cache.
func (c cache) Available() int { return c.pages.Available()[c.main] }

// Need implements sched.Cache.
func (c cache) Need(r *sched.Request, tokens int) int {
	return c.pages.Need(&c.byID[r.ID].seq, tokens)[c.main]
}

// Returns implements sched.Cache.
func (c cache) Returns(r *sched.Request) int {
	return c.pages.Returns(&c.byID[r.ID].seq)[c.main]
}

// Match implements sched.Cache.
func (c cache) Match(r *sched.Request) (tokens, idle int) {
	q := c.byID[r.ID]
	tokens, pages := c.pages.Match(q.Salt, c.shareable(q))
	return tokens, pages[c.main]
}
