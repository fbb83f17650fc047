package sched

import (
	"fmt"
	"testing"
)

// busy is a server under load: 256 answering or reading, 10,000 waiting, and a cache without idle pages.
func busy(t testing.TB, policy Policy) (*State, Cache) {
	o := Options{
		Policy: policy, Pages: 1 << 16, PageSize: 16, MaxContext: 1 << 17,
		MaxBatchedTokens: 8192, MaxSeqs: 256, MaxWaiting: 11000, AgingBound: 1 << 40,
		Price: func(s Shape) float64 { return float64(s.Tokens) + float64(s.Rows)/64 }, TargetITL: 1e5,
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10256 {
		r := &Request{ID: int64(i), Priority: i * 7919 % 10, Cached: i * 31 % 500, Target: 300 + i%1000, Limit: 2000}
		if err := s.Submit(r); err != nil {
			t.Fatal(err)
		}
		if i < 256 {
			s.Commit(&Schedule{Chunks: []Chunk{{Request: r, Admit: true}}})
			if r.Computed = r.Target - 1; i%16 == 15 {
				r.Computed = r.Target - 50
			}
		}
	}
	return s, plenty{o.PageSize}
}

// plenty is a cache that never runs out.
type plenty struct{ size int }

func (plenty) Available(int) int              { return 1 << 15 }
func (plenty) Returns(*Request) int           { return 0 }
func (plenty) Match(*Request, int) (int, int) { return 64, 4 }
func (plenty) HostAvailable(int) int          { return 0 }
func (c plenty) Need(r *Request, n int) int {
	return (r.Computed+n+c.size-1)/c.size - (r.Computed+c.size-1)/c.size
}

// BenchmarkStep is the scheduling of one step at 256 running and 10,000 waiting: 240 answer, 16 read their prompts,
// two end and two are admitted.
func BenchmarkStep(b *testing.B) {
	for _, policy := range []Policy{FCFS, ByPriority, LongestPrefix} {
		b.Run(string(policy), func(b *testing.B) {
			s, cache := busy(b, policy)
			var schedule Schedule
			b.ReportAllocs()
			for b.Loop() {
				churn(b, s, &schedule, cache)
			}
		})
	}
}

// churn ends two requests, puts two like them in the queue, and schedules a step.
func churn(t testing.TB, s *State, schedule *Schedule, cache Cache) {
	for range 2 {
		r := s.running[len(s.running)/2]
		s.Remove(r)
		r.Computed, r.Cached = 0, 0
		if err := s.Submit(r); err != nil {
			t.Fatal(err)
		}
	}
	s.Refresh(cache)
	s.Schedule(schedule, cache, 0)
	s.Commit(schedule)
	admitted := 0
	for _, c := range schedule.Chunks {
		if c.Admit {
			admitted++
			c.Request.Computed = c.Request.Target - 1
		}
	}
	if admitted != 2 || len(s.running) != 256 || s.Waiting() != 10000 {
		t.Fatal(fmt.Sprint(admitted, " admitted, ", len(s.running), " run, ", s.Waiting(), " wait"))
	}
}

func TestNoAllocations(t *testing.T) {
	for _, policy := range []Policy{FCFS, ByPriority, LongestPrefix} {
		s, cache := busy(t, policy)
		var schedule Schedule
		for range 10 {
			churn(t, s, &schedule, cache)
		}
		if allocs := testing.AllocsPerRun(200, func() { churn(t, s, &schedule, cache) }); allocs != 0 {
			t.Errorf("%s: %v allocations per step", policy, allocs)
		}
	}
}
