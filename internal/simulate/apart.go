package simulate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/route/policy"
)

// Apart is servers that compute prompts, from which the replicas go on.
type Apart struct {
	Prefill int            // servers
	From    int            // tokens of a prompt from which on one of them computes it; shorter ones are computed by the replica
	Link    float64        // bytes/s from one of them to the replicas
	Lag     float64        // s before the first byte of a message arrives
	Token   int64          // bytes of a token of a prompt
	State   int64          // bytes of a sequence's states
	Limits  backend.Limits // of the replicas: a step takes a whole prompt in, since nothing of it is computed
}

// Pool is what a pool of servers did.
type Pool struct {
	Servers []engine.Stats `json:"servers"`
	Busy    float64        `json:"busy_fraction"`
	Moved   int64          `json:"bytes_moved"`   // from it to the others
	Waited  time.Duration  `json:"mean_extra_ns"` // from the end of a prompt to the arrival of all that was computed of it, in the mean
	Prompts int            `json:"prompts_computed"`
}

// check refuses pools that cannot be.
func (a *Apart) check() error {
	switch {
	case a.Prefill < 1:
		return fmt.Errorf("simulate: %d servers compute prompts; 1 or more is possible", a.Prefill)
	case a.From < 0:
		return fmt.Errorf("simulate: prompts of %d tokens or more are computed by others; 0 or more is possible", a.From)
	case !(a.Link > 0):
		return errors.New("simulate: the link between servers that compute prompts and the replicas has no bandwidth; give one")
	}
	return nil
}

// runApart simulates both pools. Prompts are computed without regard to the replicas, so those servers are simulated first; then each request comes to a replica when what was computed of
// its prompt has arrived there. Of that it computes what does not fill a page. Pages cross while a prompt is being computed, those of its last chunk afterwards, and one after the other
// from each server; what a replica has in its cache crosses too.
func runApart(o Options, r Replicas) (*Result, error) {
	a := r.Apart
	if err := a.check(); err != nil {
		return nil, err
	}
	began := time.Now()
	whole := o.Trace
	var long []int // requests whose prompts are computed apart
	prompts := *whole
	prompts.Requests = nil
	for i, q := range whole.Requests {
		if q.Input >= a.From {
			long = append(long, i)
			q.Output = 1
			prompts.Requests = append(prompts.Requests, q)
		}
	}
	pool := &Pool{Prompts: len(long)}
	at := make([]time.Duration, len(whole.Requests)) // when each comes to its replica
	for i, q := range whole.Requests {
		at[i] = q.At
	}
	if len(long) > 0 {
		first := o
		first.Trace = &prompts
		least, err := policy.New("least_load")
		if err != nil {
			return nil, err
		}
		c, err := newCluster(&first, Replicas{Count: a.Prefill, Policy: least})
		if err != nil {
			return nil, err
		}
		err = c.run(least)
		if c.close(); err != nil {
			return nil, err
		}
		a.arrive(&o, c, long, at, pool)
	}
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return int(at[i] - at[j]) })
	then := o
	then.Trace = &trace.Trace{}
	*then.Trace = *whole
	then.Trace.Requests = nil
	for _, i := range order {
		q := whole.Requests[i]
		q.At = at[i]
		then.Trace.Requests = append(then.Trace.Requests, q)
	}
	then.Limits, then.Cost = a.Limits, a.rest(o.Cost, o.Limits.PageSize)
	then.Engine.ITLRatio, then.Engine.TargetITL = 0, 0 // what a prompt takes there is next to nothing
	c, err := newCluster(&then, r)
	if err != nil {
		return nil, err
	}
	err = c.run(r.Policy)
	c.close()
	if err != nil {
		return nil, err
	}
	for n, i := range order {
		record, waited := &c.records[n], at[i]-whole.Requests[i].At
		record.At = whole.Requests[i].At
		record.TTFT += waited
		record.E2E += waited
	}
	then.Trace = whole
	slices.SortStableFunc(c.records, func(x, y loadgen.Record) int { return int(x.At - y.At) })
	all := c.result(began)
	all.Prefill = pool
	return all, nil
}

// arrive finds when what was computed of prompts is at the replicas.
func (a *Apart) arrive(o *Options, c *cluster, long []int, at []time.Duration, pool *Pool) {
	free := make([]float64, a.Prefill) // when each server's link is, s
	chunk := float64(o.Limits.Tokens) * float64(a.Token)
	order := make([]int, len(long)) // by the prompts' ends
	for n := range order {
		order[n] = n
	}
	end := func(n int) float64 { return (c.records[n].At + c.records[n].TTFT).Seconds() }
	slices.SortStableFunc(order, func(x, y int) int {
		if end(x) < end(y) {
			return -1
		}
		return 1
	})
	waited := 0.0
	for _, n := range order {
		record, server := &c.records[n], c.placed[n]
		if record.Err != nil || record.Output == 0 {
			continue // it is refused by the replica too
		}
		bytes := float64(int64(record.Input)*a.Token + a.State)
		last := end(n) + a.Lag + (min(chunk, bytes)+float64(a.State))/a.Link
		there := max(last, max(free[server], record.At.Seconds())+a.Lag+bytes/a.Link)
		free[server] = there
		at[long[n]] = time.Duration(there * 1e9)
		waited += there - end(n)
		pool.Moved += int64(bytes)
	}
	pool.Waited = time.Duration(1e9 * waited / float64(len(long)))
	span := 0.0
	for _, s := range c.replicas {
		span = max(span, (s.device.clock.since() - o.Trace.Requests[0].At).Seconds())
		pool.Busy += s.device.spent.Seconds()
		pool.Servers = append(pool.Servers, s.engine.Stats())
	}
	pool.Busy /= max(span*float64(a.Prefill), 1e-9)
}

// rest is what steps of a replica cost: of prompts that were computed elsewhere what does not fill a page, one token at least.
func (a *Apart) rest(cost func(*graph.Step) float64, page int) func(*graph.Step) float64 {
	return func(s *graph.Step) float64 {
		if !slices.ContainsFunc(s.Seqs, func(q graph.Seq) bool { return a.had(q, page) > 0 }) {
			return cost(s)
		}
		less := *s
		less.Seqs = slices.Clone(s.Seqs)
		for i := range less.Seqs {
			n := a.had(less.Seqs[i], page)
			less.Seqs[i].New, less.Seqs[i].Past = less.Seqs[i].New-n, less.Seqs[i].Past+n
		}
		return cost(&less)
	}
}

// had is how many of a sequence's tokens of a step were computed elsewhere.
func (a *Apart) had(q graph.Seq, page int) int {
	if all := q.Past + q.New; q.New > 1 && all >= a.From {
		return max(min((all-1)/page*page-q.Past, q.New-1), 0)
	}
	return 0
}
