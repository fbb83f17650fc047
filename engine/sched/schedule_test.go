package sched

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestEveryRequestEnds drives random loads through random settings: every schedule keeps its rules, no request is lost, and
// when no more come everything is finished in bounded time.
func TestEveryRequestEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(0, 2).Draw(t, "arrivals") {
				s.submit(t)
			}
			if len(s.all) > 0 && rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
				r := rapid.SampledFrom(s.all).Draw(t, "which")
				if !s.finished[r] {
					if r.Swapped {
						s.cache[r.Rank].host += s.state.options.pagesFor(r.Computed)
					}
					s.finish(r)
				}
			}
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; s.state.Waiting()+len(s.state.running) > 0; n++ {
			if n > 200*210 { // a token per step and request would take so long
				t.Fatalf("%d requests run and %d wait for ever", len(s.state.running), s.state.Waiting())
			}
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range s.all {
			if !s.finished[r] {
				t.Fatalf("request %d was lost", r.ID)
			}
		}
		if s.state.Backlog() != 0 {
			t.Fatalf("a backlog of %d tokens is left", s.state.Backlog())
		}
	})
}

// TestScheduleIsPure: scheduling twice gives the same schedule, and changes nothing that a later one could see.
func TestScheduleIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			s.submit(t)
			before := snapshot(s.state)
			var first, second Schedule
			s.state.Schedule(&first, s.cache, s.now)
			s.state.Schedule(&second, s.cache, s.now)
			if !slices.Equal(first.Chunks, second.Chunks) || !slices.Equal(first.Preempt, second.Preempt) || first.Shape != second.Shape {
				t.Fatalf("two schedules of one state:\n%+v\n%+v", first, second)
			}
			if after := snapshot(s.state); !reflect.DeepEqual(before, after) {
				t.Fatalf("scheduling changed the state:\n%+v\n%+v", before, after)
			}
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func snapshot(s *State) (all []Request) {
	for _, r := range slices.Concat(s.running, s.waiting.items()) {
		all = append(all, *r)
	}
	return append(all, Request{Computed: len(s.running), Target: s.tokens, Limit: s.held, Cached: s.asked})
}

func baseOptions() Options {
	return Options{
		Policy: FCFS, Pages: 100, PageSize: 16, MaxContext: 4096,
		MaxBatchedTokens: 128, MaxSeqs: 8, MaxWaiting: 4,
	}
}

// newState is an engine of those options and requests, running ones first: computed, target.
func newState(t *testing.T, o Options, inRunning, inWaiting []*Request) (*State, *counting) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{size: o.PageSize, pages: o.Pages, own: map[*Request]int{}, sharing: map[*Request]int{}, host: 100}
	for i, r := range slices.Concat(inRunning, inWaiting) {
		computed := r.Computed
		r.ID, r.Limit, r.Computed = int64(2*i+1), r.Target+1, 0
		if err := s.Submit(r); err != nil {
			t.Fatal(err)
		}
		if i < len(inRunning) {
			s.Commit(&Schedule{Chunks: []Chunk{{Request: r, Admit: true}}})
			r.Computed = computed
			c.own[r] = o.pagesFor(computed)
		}
	}
	return s, c
}

type wantChunk struct {
	r      *Request
	tokens int
	logits bool
	admit  bool
}

func TestPlans(t *testing.T) {
	answering := func(n int) *Request { return &Request{Computed: n, Target: n + 1} }
	reading := func(n, of int) *Request { return &Request{Computed: n, Target: of} }
	prompt := func(n int) *Request { return &Request{Target: n} }
	a, b, c := answering(20), answering(47), answering(48)
	long, middle, other, next := reading(64, 500), reading(64, 85), reading(32, 90), prompt(40)
	tests := []scheduleTest{
		{"answers first, then prompts as they came, then the queue", func(o *Options) { o.MaxBatchedTokens = 512 },
			[]*Request{long, a, b}, []*Request{next},
			[]wantChunk{{a, 1, true, false}, {b, 1, true, false}, {long, 436, true, false}, {next, 40, true, true}}, nil},
		{"a prompt gets what is left of the budget, in whole pages", nil,
			[]*Request{a, long}, []*Request{next},
			[]wantChunk{{a, 1, true, false}, {long, 112, false, false}}, nil},
		{"the newest makes room for the oldest", func(o *Options) { o.Pages = 8 },
			[]*Request{b, c, answering(32)}, nil,
			[]wantChunk{{b, 1, true, false}, {c, 1, true, false}}, []*Request{nil}},
		{"of the newest, what it was already given is taken back", func(o *Options) { o.Pages, o.Policy = 9, ByPriority },
			[]*Request{{Computed: 40, Target: 41, Priority: 5}, c, {Computed: 48, Target: 49, Priority: 1}}, nil,
			[]wantChunk{{c, 1, true, false}, {nil, 1, true, false}}, []*Request{nil}},
		{"a prompt takes the pages there are", func(o *Options) { o.Pages = 8 },
			[]*Request{a, other, answering(20)}, nil,
			[]wantChunk{{a, 1, true, false}, {nil, 1, true, false}, {other, 32, false, false}}, nil},
		{"no admission unless all its tokens have pages", func(o *Options) { o.Pages = 4 },
			[]*Request{a}, []*Request{prompt(33)},
			[]wantChunk{{a, 1, true, false}}, nil},
		{"the watermark holds back", func(o *Options) { o.Pages, o.Watermark = 6, 2 },
			[]*Request{a}, []*Request{prompt(33)},
			[]wantChunk{{a, 1, true, false}}, nil},
		{"the watermark does not hold back the only one", func(o *Options) { o.Pages, o.Watermark = 3, 2 },
			nil, []*Request{prompt(33)},
			[]wantChunk{{nil, 33, true, true}}, nil},
		{"first come, first served: none passes one that does not fit", func(o *Options) { o.Pages = 8 },
			[]*Request{a}, []*Request{prompt(120), prompt(10)},
			[]wantChunk{{a, 1, true, false}}, nil},
		{"no more than may run", func(o *Options) { o.MaxSeqs = 2 },
			[]*Request{a}, []*Request{prompt(10), prompt(11)},
			[]wantChunk{{a, 1, true, false}, {nil, 10, true, true}}, nil},
		{"by priority", func(o *Options) { o.Policy = ByPriority },
			nil, []*Request{{Target: 10, Priority: 2}, {Target: 11, Priority: 1}, {Target: 12, Priority: 1}},
			[]wantChunk{{nil, 11, true, true}, {nil, 12, true, true}, {nil, 10, true, true}}, nil},
		{"by prefix, but first those that have waited too long", func(o *Options) { o.Policy, o.AgingBound = LongestPrefix, 50 },
			nil, []*Request{{Target: 10, Arrived: 60}, {Target: 11, Arrived: 40}, {Target: 12, Arrived: 90, Cached: 16}},
			[]wantChunk{{nil, 11, true, true}, {nil, 12, true, true}, {nil, 10, true, true}}, nil},
		{"held back until enough wait", func(o *Options) { o.WaitingServedRatio, o.MaxHeldSteps = 2, 9 },
			[]*Request{a}, []*Request{prompt(10)},
			[]wantChunk{{a, 1, true, false}}, nil},
		{"stuck prompts: the newest goes", func(o *Options) { o.Pages = 6 },
			[]*Request{middle, other}, nil,
			[]wantChunk{{middle, 1, false, false}}, []*Request{other}},
	}
	for _, test := range tests {
		t.Run(test.name, test.run)
	}
}

// TestPlansInTime: prompts get what leaves answers their time.
func TestPlansInTime(t *testing.T) {
	a, long, other, next := &Request{Computed: 20, Target: 21}, &Request{Computed: 64, Target: 500}, &Request{Computed: 32, Target: 90}, &Request{Target: 40}
	for _, test := range []scheduleTest{
		{"a chunk that ends in time", func(o *Options) {
			o.Price, o.TargetITL = func(s Shape) float64 { return float64(s.Tokens) }, 50
		},
			[]*Request{a, long}, nil,
			[]wantChunk{{a, 1, true, false}, {long, 48, false, false}}, nil},
		{"a page's worth even if late", func(o *Options) {
			o.Price, o.TargetITL = func(s Shape) float64 { return 99 }, 50
		},
			[]*Request{a, long, other}, nil,
			[]wantChunk{{a, 1, true, false}, {long, 16, false, false}}, nil},
		{"no answers, no hurry", func(o *Options) { o.Price, o.TargetITL = func(s Shape) float64 { return 99 }, 50 },
			[]*Request{long}, nil,
			[]wantChunk{{long, 128, false, false}}, nil},
		{"a chunk with which the step takes three times as long", func(o *Options) {
			o.Price, o.ITLRatio = func(s Shape) float64 { return float64(20 + s.Tokens) }, 3
			o.Usual = o.Price
		},
			[]*Request{a, long}, nil,
			[]wantChunk{{a, 1, true, false}, {long, 32, false, false}}, nil},
		{"a prompt that takes many steps has less time, and others what it leaves", func(o *Options) {
			o.Price, o.ITLRatio = func(s Shape) float64 { return float64(20 + s.Tokens) }, 3
			o.Usual = o.Price
		},
			[]*Request{a, {Computed: 64, Target: 700}}, []*Request{next},
			[]wantChunk{{a, 1, true, false}, {nil, 16, false, false}, {next, 16, false, true}}, nil},
		{"no price yet", func(o *Options) {
			o.Price, o.ITLRatio = func(s Shape) float64 { return 0 }, 3
			o.Usual = o.Price
		},
			[]*Request{a, long}, nil,
			[]wantChunk{{a, 1, true, false}, {long, 112, false, false}}, nil},
	} {
		t.Run(test.name, test.run)
	}
}

// TestReadingBeginsInCache: how long a prompt takes is a matter of what the cache does not have, also when it is admitted again.
func TestReadingBeginsInCache(t *testing.T) {
	for common, want := range map[int]int{0: 16, 4: 32} { // pages in the cache; tokens of a chunk
		o := baseOptions()
		o.Price, o.ITLRatio = func(s Shape) float64 { return float64(20 + s.Tokens) }, 3
		o.Usual = o.Price
		s, cache := newState(t, o, []*Request{{Computed: 20, Target: 21}}, nil)
		cache.common = common
		r := &Request{ID: 2, Target: 540, Limit: 541}
		if err := s.Submit(r); err != nil {
			t.Fatal(err)
		}
		var schedule Schedule
		for range 3 {
			s.Schedule(&schedule, caches{cache}, 0)
			if c := schedule.Chunks[1]; c.Request != r || c.Tokens != want {
				t.Fatalf("%d pages in the cache: %+v; want %d tokens", common, c, want)
			}
			s.Commit(&schedule)
			r.Computed = schedule.Chunks[1].from + want
			cache.own[r] = r.Computed/o.PageSize - common
			cache.sharing[r] = common
		}
	}
}

// scheduleTest is a state of the queues and what Schedule is to make of it.
type scheduleTest struct {
	name             string
	change           func(*Options) // of baseOptions; nil: nothing
	running, waiting []*Request
	chunks           []wantChunk
	preempt          []*Request // a nil request stands for any
}

func (test scheduleTest) run(t *testing.T) {
	clone := map[*Request]*Request{}
	copies := func(list []*Request) (out []*Request) {
		for _, r := range list {
			clone[r] = &Request{Arrived: r.Arrived, Priority: r.Priority, Computed: r.Computed, Target: r.Target, Cached: r.Cached}
			out = append(out, clone[r])
		}
		return out
	}
	o := baseOptions()
	if test.change != nil {
		test.change(&o)
	}
	s, cache := newState(t, o, copies(test.running), copies(test.waiting))
	var schedule Schedule
	s.Schedule(&schedule, caches{cache}, 100)
	if len(schedule.Chunks) != len(test.chunks) || len(schedule.Preempt) != len(test.preempt) {
		t.Fatalf("%d chunks, %d preempted: %+v", len(schedule.Chunks), len(schedule.Preempt), schedule)
	}
	for i, want := range test.chunks { // a nil request stands for any
		got := schedule.Chunks[i]
		if want.r != nil && got.Request != clone[want.r] || got.Tokens != want.tokens || got.Logits != want.logits || got.Admit != want.admit {
			t.Errorf("chunk %d is %+v of %+v; want %+v", i, got, got.Request, want)
		}
	}
	for i, want := range test.preempt {
		if want != nil && schedule.Preempt[i].Request != clone[want] {
			t.Errorf("%+v is preempted", schedule.Preempt[i].Request)
		}
	}
}

func TestSwapOrRecompute(t *testing.T) {
	for _, test := range []struct {
		recompute, swap float64
		host            int
		want            bool
	}{{100, 10, 8, true}, {10, 100, 8, false}, {100, 10, 2, false}} {
		o := baseOptions()
		o.Pages = 7
		o.SwapPrice = func(*Request) (float64, float64) { return test.recompute, test.swap }
		old, newest := &Request{Computed: 64, Target: 65}, &Request{Computed: 48, Target: 49}
		s, cache := newState(t, o, []*Request{old, newest}, nil)
		cache.host = test.host
		var schedule Schedule
		s.Schedule(&schedule, caches{cache}, 0)
		if want := []Preemption{{newest, test.want}}; !slices.Equal(schedule.Preempt, want) {
			t.Errorf("%+v: %+v", test, schedule.Preempt)
		}
		s.Commit(&schedule)
		if newest.Swapped != test.want || (newest.Computed == 48) != test.want || s.Waiting() != 1 {
			t.Errorf("%+v: after it %+v", test, newest)
		}
	}
}

func TestSubmitRefuses(t *testing.T) {
	s, _ := newState(t, baseOptions(), nil, nil)
	var long *TooLongError
	if err := s.Submit(&Request{Target: 4000, Limit: 4097}); !errors.As(err, &long) || long.Tokens != 4097 || long.Limit != 4096 {
		t.Errorf("longer than the context: %v", err)
	}
	if err := s.Submit(&Request{Target: 100, Limit: 1601}); !errors.As(err, &long) || long.Limit != 1600 {
		t.Errorf("longer than the cache: %v", err)
	}
	if err := s.Submit(&Request{Target: 100, Limit: 801, Texts: 2}); !errors.As(err, &long) || long.Limit != 800 || !strings.Contains(err.Error(), "each of its 2 texts") {
		t.Errorf("two texts that are longer than the cache: %v", err)
	}
	for _, r := range []*Request{{Limit: 5}, {Target: 6, Limit: 5}, {Target: 5, Limit: 6, Computed: 1}} {
		if err := s.Submit(r); err == nil || !strings.HasPrefix(err.Error(), "sched: request 0 has") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for range 4 {
		if err := s.Submit(&Request{Target: 1, Limit: 2}); err != nil {
			t.Fatal(err)
		}
	}
	var full *FullError
	if err := s.Submit(&Request{Target: 1, Limit: 2}); !errors.As(err, &full) || full.Waiting != 4 {
		t.Errorf("one more than may wait: %v", err)
	}
	if s.Backlog() != 4 {
		t.Errorf("a backlog of %d tokens, want 4", s.Backlog())
	}
}

func TestOptionsValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`unknown policy "lifo"`:         func(o *Options) { o.Policy = "lifo" },
		"the number of pages is 0":      func(o *Options) { o.Pages = 0 },
		"the page size is -1":           func(o *Options) { o.PageSize = -1 },
		"the context length is 0":       func(o *Options) { o.MaxContext = 0 },
		"the number of running":         func(o *Options) { o.MaxSeqs = 0 },
		"the length of the queue":       func(o *Options) { o.MaxWaiting = 0 },
		"a step takes 23 tokens":        func(o *Options) { o.MaxBatchedTokens = 23 },
		"the watermark is 100 pages":    func(o *Options) { o.Watermark = 100 },
		"waiting-served-ratio -1":       func(o *Options) { o.WaitingServedRatio = -1 },
		"target inter-token latency of": func(o *Options) { o.TargetITL = 1 },
		"a step 1 times as long": func(o *Options) {
			o.Price, o.ITLRatio = func(Shape) float64 { return 1 }, 1
			o.Usual = o.Price
		},
		"a step 2 times as long": func(o *Options) { o.ITLRatio = 2 },
	} {
		o := baseOptions()
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// TestLongestPrefixIsRefreshed: the queue learns what has come into the cache while it waited.
func TestLongestPrefixIsRefreshed(t *testing.T) {
	o := baseOptions()
	o.Policy, o.AgingBound = LongestPrefix, 1000
	odd, even := &Request{Target: 100}, &Request{Target: 100}
	s, cache := newState(t, o, nil, []*Request{odd, even})
	even.ID, cache.common = 2, 3 // even ones have the common beginning
	s.Refresh(caches{cache})
	var schedule Schedule
	s.Schedule(&schedule, caches{cache}, 0)
	if got := schedule.Chunks[0]; got.Request != even || got.Tokens != 52 {
		t.Errorf("first is %+v of %+v; want 52 tokens of the one with 48 in the cache", got, got.Request)
	}
}
