package route

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ridge-llm/ridge/route/policy"
	"github.com/ridge-llm/ridge/route/prefix"
	"github.com/ridge-llm/ridge/route/prompt"
	"github.com/ridge-llm/ridge/route/upstream"
	"github.com/ridge-llm/ridge/route/zmtp"
)

// status is what a replica can be given.
type status int

const (
	away     status = iota // it does not answer, or says that it cannot: nothing
	ready                  // requests
	draining               // it is to be removed: nothing new
)

// String is the status as /list_workers has it.
func (s status) String() string { return [...]string{"away", "ready", "draining"}[s] }

// replica is a server behind the router. But for its connections it belongs to the router's lock.
type replica struct {
	url      string
	endpoint string // of its cache events; "": it has none
	name     uint64 // hash of url
	place    int    // in the trees
	pool     *upstream.Pool
	ctx      context.Context // of its checks
	stop     func()          // ends them

	status    status
	removed   bool   // it goes once its requests have ended
	why       string // it is away
	models    []string
	figures   figures
	following bool // its events are being read, or waited for
	events    bool // it says itself what it holds

	active  int // requests sent and not ended
	pending int // tokens of their prompts that it was not thought to have, of those without an answer yet

	sent, failed atomic.Int64
}

// figures are what a replica reports of itself (GET /metrics).
type figures struct {
	at      time.Time // zero: it does not report
	running float64   // requests
	waiting float64   // requests
	queue   float64   // s until a new request would begin; -1: it does not say
	token   float64   // s for a token of a prompt; 0: it does not say
	usage   float64   // part of the cache in use
	block   int       // tokens
	blocks  int
}

// average is a mean that forgets.
type average float64

func (a *average) add(x float64) {
	const weight = 0.1
	if *a == 0 {
		*a = average(x)
		return
	}
	*a += average(weight * (x - float64(*a)))
}

const (
	// Assumed of replicas that say nothing: tokens/s of prompts, and tokens of cache.
	assumedRate  = 5000
	assumedCache = 1 << 20
)

// view is the replica as a policy sees it, for a prompt of which it holds so many tokens. token is what one of a prompt takes, s, at any replica: of
// one that has done little its own price says little, and it would never be given the work to find out. What is slow shows in its queue.
func (r *replica) view(held, keys int, token float64, now time.Time) policy.Replica {
	f := &r.figures
	// What is on its way is in the next report, so that the larger counts and not the sum.
	queue := float64(r.pending) * token
	switch {
	case f.queue >= 0 && !f.at.IsZero():
		queue = max(queue, f.queue-now.Sub(f.at).Seconds()) // it has gone on since
	case f.waiting > 0:
		queue += float64(r.pending) / float64(max(r.active, 1)) * f.waiting * token
	}
	return policy.Replica{Queue: queue, Token: token, Held: held, Active: max(r.active, int(f.running+f.waiting)), Keys: keys}
}

// room is how many units of text a replica is taken to hold by what was sent there.
func (r *replica) room() int {
	tokens := r.figures.block * r.figures.blocks
	if tokens == 0 {
		tokens = assumedCache
	}
	return max(1, tokens*prompt.BytesOfToken/prefix.Unit)
}

// roomBlocks is how many blocks a replica is taken to hold: those that it says, and what was just sent there.
func (r *replica) roomBlocks() int {
	if r.events || r.figures.blocks == 0 {
		return assumedCache
	}
	return r.figures.blocks
}

// serves reports whether the replica has a model; one whose list is not known has any.
func (r *replica) serves(model string) bool {
	return model == "" || len(r.models) == 0 || slices.Contains(r.models, model)
}

// newReplica makes a replica of a URL and perhaps, after a comma, the endpoint of its cache events.
func newReplica(named string, place int) (*replica, error) {
	url, endpoint, events := strings.Cut(named, ",")
	url = strings.TrimRight(url, "/")
	if events {
		if _, _, err := zmtp.Address(endpoint); err != nil {
			return nil, fmt.Errorf("route: the cache events of %s: %w", url, err)
		}
	}
	pool, err := upstream.New(url)
	if err != nil {
		return nil, fmt.Errorf("route: the replica: %w", err)
	}
	return &replica{url: url, endpoint: endpoint, name: uint64(prefix.Hash(0, url)), place: place, pool: pool, why: "it has not been asked yet", figures: figures{queue: -1}, stop: func() {}}, nil
}
