package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/route/policy"
	"github.com/ridge-llm/ridge/route/prefix"
)

// Replicas are several engines behind a router.
type Replicas struct {
	Count  int
	Policy policy.Policy // by which the router chooses
	Events bool          // the router knows what replicas have cached (KV events), not only what it has sent there
	Apart  *Apart        // servers that compute prompts for them; nil: there are none
}

// cluster is replicas in one virtual time. Each engine has a clock of its own and runs alone, to the end of the step in which the next request comes; that is routed once no
// engine with work is before its time. So a simulation is the same every time, but for what engines note of how long their latest steps took: one that has nothing to do may see the next request's time as the end of its last step.
type cluster struct {
	options  *Options
	replicas []*replica
	trees    *prefix.Tree
	token    float64 // s of a token of a prompt
	records  []loadgen.Record
	views    []policy.Replica
	depth    []int
	chain    []prefix.Key
	room     int                 // tokens of a request, at most
	longest  []engine.StepOutput // answers are its ends
	placed   []int               // the replica of each request
}

// replica is an engine and what the router knows of it.
type replica struct {
	place   int
	device  *device
	engine  *engine.Engine
	active  int // requests
	pending int // tokens of prompts without a first token that were not thought to be cached
	keys    map[uint64]prefix.Key

	mu      sync.Mutex // of what follows: that the engine's goroutine has come to a stop
	changed *sync.Cond
	running bool
	until   time.Duration // it runs by itself
}

// RunReplicas simulates a trace that a router divides between replicas, each with the memory of o.Limits. Requests come at the times of the trace, and steps are not launched ahead.
func RunReplicas(o Options, r Replicas) (*Result, error) {
	began := time.Now()
	switch {
	case o.Trace == nil || len(o.Trace.Requests) == 0:
		return nil, errors.New("simulate: the trace has no requests")
	case r.Apart != nil:
		return runApart(o, r)
	}
	c, err := newCluster(&o, r)
	if err != nil {
		return nil, err
	}
	err = c.run(r.Policy)
	c.close() // the figures of an engine are complete when it has ended
	if err != nil {
		return nil, err
	}
	return c.result(began), nil
}

// newCluster makes the replicas of a simulation.
func newCluster(o *Options, r Replicas) (*cluster, error) {
	switch {
	case r.Count < 1 || r.Count > prefix.MaxReplicas:
		return nil, fmt.Errorf("simulate: %d replicas; 1 to %d are possible", r.Count, prefix.MaxReplicas)
	case o.Concurrency != 0:
		return nil, fmt.Errorf("simulate: %d requests under way in a closed loop; before replicas they come at the times of the trace", o.Concurrency)
	}
	c := &cluster{options: o, trees: prefix.New(), views: make([]policy.Replica, r.Count), depth: make([]int, r.Count), records: make([]loadgen.Record, len(o.Trace.Requests)), placed: make([]int, len(o.Trace.Requests))}
	c.room = min(o.Limits.SeqPages, o.Limits.Pages) * o.Limits.PageSize
	c.longest = newAnswer(o.Trace, c.room)
	full := graph.Step{Seqs: []graph.Seq{{New: o.Limits.Tokens}}}
	c.token = o.Cost(&full) / float64(o.Limits.Tokens)
	for i := range r.Count {
		if err := c.add(i, r.Events); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// add makes a replica.
func (c *cluster) add(place int, events bool) error {
	r := &replica{place: place, device: &device{clock: &clock{}, vocab: small, cost: c.options.Cost, page: c.options.Engine.SwapPage}}
	r.changed = sync.NewCond(&r.mu)
	r.device.ran = r.stepped
	prog, err := r.device.program(c.options.Limits, false)
	if err != nil {
		return err
	}
	o := c.options.Engine
	o.Clock = r.device.clock.Now
	room := c.options.Limits.Pages
	if events {
		room, r.keys = math.MaxInt, map[uint64]prefix.Key{}
		o.CacheEvents = func(e kv.Event) { c.event(r, e) }
	}
	if r.engine, err = engine.New(prog, o); err != nil {
		prog.Close()
		return err
	}
	c.trees.SetRoom(place, room)
	c.replicas = append(c.replicas, r)
	return nil
}

// event takes in what a replica says of its cache. The router waits meanwhile: one engine runs at a time.
func (c *cluster) event(r *replica, e kv.Event) {
	switch e.Kind {
	case kv.Cleared:
		clear(r.keys)
		c.trees.Cleared(r.place)
	case kv.Removed:
		c.trees.Removed(r.place, r.keys[e.Hash])
		delete(r.keys, e.Hash)
	case kv.Stored:
		key := prefix.Block(r.keys[e.Before], e.Tokens)
		r.keys[e.Hash] = key
		c.trees.Stored(r.place, key)
	}
}

// stepped stops the engine at the end of a step, if it has come as far as it may, until the router has it go on.
func (r *replica) stepped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active == 0 || r.device.clock.since() < r.until {
		return
	}
	r.running = false
	r.changed.Broadcast()
	for !r.running {
		r.changed.Wait()
	}
}

// goOn has the engine go on until a time, or to the end of its last request.
func (r *replica) goOn(until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.running = until, r.active > 0 && r.device.clock.since() < until
	for r.changed.Broadcast(); r.running; {
		r.changed.Wait()
	}
}

// run routes every request when its time has come, and has the engines end all.
func (c *cluster) run(p policy.Policy) error {
	for i := range c.records {
		select {
		case <-c.options.Stop:
			return ErrStopped
		default:
		}
		for _, r := range c.replicas {
			r.goOn(c.options.Trace.Requests[i].At)
		}
		c.send(p, i)
	}
	for _, r := range c.replicas {
		r.goOn(math.MaxInt64)
	}
	return nil
}

// send routes a request.
func (c *cluster) send(p policy.Policy, i int) {
	o := c.options
	q, record := &o.Trace.Requests[i], &c.records[i]
	*record = loadgen.Record{At: q.At, Input: q.Input, Asked: q.Output}
	tokens := prompt(o.Trace, i)
	c.chain = prefix.Tokens(c.chain[:0], 0, tokens, o.Limits.PageSize)
	c.trees.Held(c.chain, c.depth)
	for j, r := range c.replicas {
		held := min(c.depth[j]*o.Limits.PageSize, q.Input)
		c.views[j] = policy.Replica{Queue: float64(r.pending) * c.token, Token: c.token, Held: held, Active: r.active, Keys: c.trees.Keys(j)}
	}
	at := p.Choose(&policy.Request{Tokens: q.Input}, c.views)
	r := c.replicas[at]
	c.placed[i] = at
	c.trees.Sent(at, c.chain)
	uncached := q.Input - c.views[at].Held
	forced := c.longest[len(c.longest)-max(min(q.Output, c.room-q.Input), 1):]
	request := engine.Request{Prompt: tokens, MaxTokens: q.Output, Params: greedy(), Forced: forced, Adapters: o.Adapters.of(i)}
	last := q.At
	request.Emit = func(sample.Choice) bool {
		now := r.device.clock.since()
		if record.Output == 0 {
			record.TTFT = now - q.At
			r.pending -= uncached
			uncached = 0
		} else {
			record.Gaps = append(record.Gaps, now-last)
		}
		last = now
		record.Output++
		return false
	}
	request.Done = func(f engine.Final) {
		record.E2E, record.Cached, record.Err = r.device.clock.since()-q.At, f.Cached, f.Err
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pending -= uncached
		if r.active--; r.active == 0 {
			r.running = false
			r.changed.Broadcast()
		}
	}
	idle := r.active == 0
	if idle {
		r.device.clock.reach(q.At)
	}
	r.mu.Lock()
	r.active++
	r.pending += uncached
	r.running = idle
	r.mu.Unlock()
	if err := r.engine.Submit(context.Background(), request); err != nil {
		record.Err = &loadgen.Failure{Kind: "refused", Message: err.Error()}
		r.mu.Lock()
		r.active--
		r.pending -= uncached
		r.running = false
		r.mu.Unlock()
		return
	}
	if idle { // it begins at once, and stops at the end of its first step
		r.mu.Lock()
		for r.running {
			r.changed.Wait()
		}
		r.mu.Unlock()
	}
}

// close ends the engines, one after the other: of a simulation that was stopped each is held at the end of a step.
func (c *cluster) close() {
	for _, r := range c.replicas {
		r.mu.Lock()
		r.until, r.running = math.MaxInt64, true
		r.changed.Broadcast()
		r.mu.Unlock()
		r.engine.Close()
	}
}

// result adds the replicas up.
func (c *cluster) result(began time.Time) *Result {
	o := c.options
	end, busy := o.Trace.Requests[0].At, 0.0
	all := &Result{}
	for _, r := range c.replicas {
		end = max(end, r.device.clock.since())
		busy += r.device.spent.Seconds()
		s := r.engine.Stats()
		t := &all.Stats
		t.Pages, t.PageSize = t.Pages+s.Pages, s.PageSize
		t.Queried, t.Found, t.Stranded, t.Evicted = t.Queried+s.Queried, t.Found+s.Found, t.Stranded+s.Stranded, t.Evicted+s.Evicted
		t.Preemptions, t.Swaps, t.Steps, t.Computed, t.Output = t.Preemptions+s.Preemptions, t.Swaps+s.Swaps, t.Steps+s.Steps, t.Computed+s.Computed, t.Output+s.Output
		all.Replicas = append(all.Replicas, s)
	}
	span := end - o.Trace.Requests[0].At
	all.Report = loadgen.NewReport(loadgen.Options{Trace: o.Trace, SLO: o.SLO, URL: "simulated"}, o.Name, c.records, span)
	all.Busy = busy / max(span.Seconds()*float64(len(c.replicas)), 1e-9)
	all.Real = time.Since(began).Seconds()
	all.Faster = span.Seconds() / max(all.Real, 1e-9)
	return all
}
