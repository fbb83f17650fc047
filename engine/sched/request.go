package sched

// Request is what scheduling knows of a request. The engine makes it, sets the exported fields, and while it runs keeps
// Computed and Target true; while it waits they must not change. It must not be copied while a State knows it.
type Request struct {
	ID       int64 // the engine's; only printed
	Arrived  int64 // ns, on the clock that Schedule's now is read from
	Priority int   // for the priority policy: lower goes first

	Computed int  // tokens whose keys and values are in the cache
	Target   int  // tokens known, or being sampled: prompt and answer so far. Running requests have some left to compute
	Limit    int  // tokens it may ever come to: prompt and longest answer
	Cached   int  // tokens that the cache had for it when last asked; for the longest-prefix policy
	Swapped  bool // its pages are in host memory
	Rank     int  // which of the devices with sequences of their own has its pages, while it runs or is swapped out
	Texts    int  // that the cache holds of it, each as long as the request may come to; 0: one. For Options.Whole

	order int64 // of arrival: 1, 2, 3 …
	began int   // tokens that the cache had when it was admitted: what it is read from
	place place
}

// place is where a request is.
type place uint8

const (
	nowhere place = iota
	waiting
	running
)

// left is the number of tokens that stand between a request and its next logits.
func (r *Request) left() int { return r.Target - r.Computed }

// most is the number of pages that a request takes at its longest.
func (r *Request) most(o *Options) int { return max(r.Texts, 1) * o.pagesFor(max(r.Target, r.Limit)) }

// Cache is what scheduling asks of the account of pages, mostly numbers that engine/kv knows. It answers for the moment,
// and does not know the schedule.
type Cache interface {
	// Available is the number of pages of a rank that can be given out.
	Available(rank int) int
	// Need is the number of pages that a running request would take for its next tokens.
	Need(r *Request, tokens int) int
	// Returns is the number of pages that become available when a running request gives up its own.
	Returns(r *Request) int
	// Match is how many of a waiting request's tokens are in the cache of a rank, in whole pages and fewer than Target, and how
	// many of their pages are counted in Available.
	Match(r *Request, rank int) (tokens, idle int)
	// HostAvailable is the number of pages of a rank that can be swapped out now.
	HostAvailable(rank int) int
}

// Shape is the size of a step, as far as its price depends on it.
type Shape struct {
	Tokens int // rows
	Logits int // rows whose logits are wanted
	Drafts int // of them, those of drafted tokens
	Rows   int // cache rows read: for each request, those visible to it
	Pairs  int // pairs of a token and a cache row that it attends to
}

// add grows the shape by a request's next n tokens, after those computed.
func (s Shape) add(computed, n int, logits bool) Shape {
	s.Tokens += n
	s.Rows += computed + n
	s.Pairs += n*computed + n*(n+1)/2
	if logits {
		s.Logits++
	}
	return s
}

// Sub is the shape without a request's n tokens after those computed, the opposite of add.
func (s Shape) Sub(computed, n int, logits bool) Shape {
	d := Shape{}.add(computed, n, logits)
	return Shape{Tokens: s.Tokens - d.Tokens, Logits: s.Logits - d.Logits, Drafts: s.Drafts, Rows: s.Rows - d.Rows, Pairs: s.Pairs - d.Pairs}
}
