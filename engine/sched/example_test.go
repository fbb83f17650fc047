package sched_test

import (
	"fmt"

	"github.com/ridge-llm/ridge/engine/sched"
)

// pages is the engine's answer to sched.Cache: one line each on a kv.Manager. Here it only counts.
type pages struct{ size, available int }

func (p *pages) Available(int) int                    { return p.available }
func (p *pages) Returns(r *sched.Request) int         { return p.of(r.Computed) }
func (p *pages) Match(*sched.Request, int) (int, int) { return 0, 0 }
func (p *pages) HostAvailable(int) int                { return 0 }
func (p *pages) of(tokens int) int                    { return (tokens + p.size - 1) / p.size }
func (p *pages) Need(r *sched.Request, n int) int {
	return p.of(r.Computed+n) - p.of(r.Computed)
}

// Two requests share steps of at most 40 tokens: the second's prompt is read in chunks beside the first's answer.
func Example() {
	state, err := sched.New(sched.Options{
		Policy: sched.FCFS, Pages: 64, PageSize: 16, MaxContext: 512,
		MaxBatchedTokens: 40, MaxSeqs: 8, MaxWaiting: 100,
	})
	if err != nil {
		panic(err)
	}
	cache := &pages{size: 16, available: 64}
	submit := func(id int64, prompt, answer int) {
		if err := state.Submit(&sched.Request{ID: id, Target: prompt, Limit: prompt + answer}); err != nil {
			fmt.Println(err) // status 400, or 429 for a *sched.FullError
		}
	}
	submit(1, 20, 3)
	submit(2, 70, 2)
	submit(3, 500, 100)

	var schedule sched.Schedule
	for step := 1; len(state.Running())+state.Waiting() > 0; step++ {
		state.Schedule(&schedule, cache, 0)
		state.Commit(&schedule)
		for _, c := range schedule.Chunks { // the engine: kv.Open or Extend, Append, Publish; then one batch of all
			r := c.Request
			fmt.Println("step", step, "request", r.ID, "tokens", r.Computed, "to", r.Computed+c.Tokens, "logits", c.Logits)
			cache.available -= cache.Need(r, c.Tokens)
			r.Computed += c.Tokens
			if r.Computed < r.Target {
				continue
			}
			if r.Target++; r.Target == r.Limit { // a token is sampled, and was it the last?
				state.Remove(r)
				cache.available += cache.of(r.Computed)
			}
		}
	}
	// Output:
	// sched: the request may come to 600 tokens, prompt and longest answer; the model's context holds 512; shorten the prompt or ask for fewer tokens
	// step 1 request 1 tokens 0 to 20 logits true
	// step 1 request 2 tokens 0 to 16 logits false
	// step 2 request 1 tokens 20 to 21 logits true
	// step 2 request 2 tokens 16 to 48 logits false
	// step 3 request 1 tokens 21 to 22 logits true
	// step 3 request 2 tokens 48 to 70 logits true
	// step 4 request 2 tokens 70 to 71 logits true
}
