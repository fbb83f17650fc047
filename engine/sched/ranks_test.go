package sched

import "testing"

// TestRanksLoad: requests go to the rank with least load, and where a rank has their beginning they go there unless it has much more; prompts of several ranks are read side by side, each with
// an equal share of a step.
func TestRanksLoad(t *testing.T) {
	const size = 16
	state, err := New(Options{Policy: FCFS, Ranks: 3, Pages: 20, PageSize: size, MaxContext: 300, MaxBatchedTokens: 192, MaxSeqs: 12, MaxWaiting: 40})
	if err != nil {
		t.Fatal(err)
	}
	var cache caches
	for range 3 {
		cache = append(cache, &counting{size: size, pages: 20, own: map[*Request]int{}, sharing: map[*Request]int{}})
	}
	var id int64 = 1 // odd: without the common beginning
	submit := func(prompt int, shares bool) *Request {
		r := &Request{ID: id, Target: prompt, Limit: prompt + 40}
		if id += 2; shares {
			r.ID++
		}
		if err := state.Submit(r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	var schedule Schedule
	step := func() {
		state.Schedule(&schedule, cache, 0)
		state.Commit(&schedule)
		for _, c := range schedule.Chunks {
			r := c.Request
			if c.Admit {
				found, _ := cache[c.Rank].Match(r)
				r.Computed, cache[c.Rank].sharing[r] = found, found/size
			}
			cache[c.Rank].take(r, cache[c.Rank].Need(r, c.Tokens))
			if r.Computed += c.Tokens; r.Computed == r.Target {
				r.Target++
			}
		}
	}
	var all []*Request
	for range 3 {
		all = append(all, submit(100, false))
	}
	step()
	for rank, c := range schedule.Chunks {
		if c.Rank != rank || c.Tokens != 192/3 {
			t.Errorf("chunk %d is %d tokens on rank %d; an equal share of 192 on each of 3 ranks is 64", rank, c.Tokens, c.Rank)
		}
	}
	state.Remove(all[1])
	cache[1].release(all[1])
	step()
	if r := submit(20, false); true {
		if step(); r.Rank != 1 {
			t.Errorf("a request goes to rank %d, and rank 1 has none", r.Rank)
		}
	}
	cache[2].common = 4 // rank 2 has the beginning of a prompt
	held := submit(100, true)
	if step(); held.Rank != 2 || cache[2].sharing[held] != 4 {
		t.Errorf("a request whose beginning rank 2 has goes to rank %d", held.Rank)
	}
	for range 6 { // which is worth no more than a few neighbours
		submit(40, true)
		step()
	}
	if a, b := len(cache[2].own), len(cache[1].own); a < b || a > 2*b+1 {
		t.Errorf("rank 2, which has the beginning of all, runs %d requests and rank 1 %d", a, b)
	}
}
