package engine

import (
	"context"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

// TestPlansRest: after several plans in vain most steps are not planned, but for those to which something is offered, those that bring many more or fewer tokens than the last, and those
// in which drafts are tried; a plan with drafts ends that. Steps with prompts count apart.
func TestPlansRest(t *testing.T) {
	p := &draftPlan{}
	step := func(outputs int, offered, drafts bool) (rested bool) {
		if rested = p.rests(outputs, offered); !rested {
			p.planned(outputs, drafts)
		}
		return rested
	}
	for n := range engaged {
		if step(4, false, false) {
			t.Fatalf("plan %d was left out", n)
		}
	}
	planned := 0
	for range 10 * planEvery {
		if !step(4, false, false) {
			planned++
		}
	}
	if planned != 10 {
		t.Errorf("of %d steps after plans in vain %d were planned; 10 wanted", 10*planEvery, planned)
	}
	for name, again := range map[string]func() bool{
		"offered":        func() bool { return step(4, true, false) },
		"more requests":  func() bool { return step(9, false, false) },
		"fewer requests": func() bool { return step(4, false, false) },
		"a try": func() bool {
			p.unplanned = p.tryEvery()
			defer func() { p.unplanned = 0 }()
			return step(4, false, false)
		},
		"a prompt": func() bool { p.reading = true; defer func() { p.reading = false }(); return step(4, false, false) },
	} {
		if name == "fewer requests" {
			p.rest.outputs = 9
		}
		if again() {
			t.Errorf("%s: the step was not planned", name)
		}
		p.rest.outputs = 4
		if !step(4, false, false) {
			t.Errorf("the step after one with %s was planned", name)
		}
	}
	p.rest.steps = planEvery - 1
	if step(4, false, true) || step(4, false, false) {
		t.Error("a step after one with drafts was not planned")
	}
}

// TestAskedSeldom: drafters that are asked freely and have long had nothing for a request are asked for it in one step of wakeEvery.
func TestAskedSeldom(t *testing.T) {
	const requests, steps = 8, 80
	d := &asking{fives: fives{of: func(int64) bool { return false }}}
	e := on(t, untimed{ref.New()}, testLimits(requests), Options{Predictor: dear{}, Speculation: Speculation{Drafter: d, Tokens: 4}})
	for i := range requests {
		if err := e.Submit(context.Background(), greedy([]int32{int32(10 + i), 20, 30}, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	e.admit()
	for range 2*engaged + 4 {
		mustStep(t, e)
	}
	if d.sequences < requests*2*engaged {
		t.Errorf("a drafter was asked for %d drafts in the first steps", d.sequences)
	}
	d.sequences = 0
	for range steps {
		mustStep(t, e)
	}
	if want := requests * steps / wakeEvery; d.sequences != want {
		t.Errorf("a drafter that has nothing was asked for %d drafts in %d steps of %d requests; %d wanted", d.sequences, steps, requests, want)
	}
}

// asking is fives that counts for how many sequences it is asked.
type asking struct {
	fives
	sequences int
}

func (d *asking) Propose(s []draft.Sequence) error {
	d.sequences += len(s)
	return d.fives.Propose(s)
}

// linear is a Predictor by which every token of a step takes the same time, and the step some.
type linear struct{ step, token float64 }

func (l linear) Predict(s sched.Shape) float64      { return l.step + l.token*float64(s.Tokens) }
func (linear) Observe(*graph.Step, float64) float64 { return 0 }

// TestDraftsBesidePrompts: beside a prompt, whose time is spent in any case, drafts are verified if their tokens come faster than they do in the steps after it.
func TestDraftsBesidePrompts(t *testing.T) {
	for _, c := range []struct {
		name   string
		price  linear
		drafts bool
	}{
		{"rows cost what they bring", linear{0.1, 0.1}, false},
		{"rows cost next to nothing", linear{1, 0.001}, true},
	} {
		d := &fives{of: func(int64) bool { return true }}
		e := on(t, untimed{ref.New()}, testLimits(8), Options{Predictor: c.price, Speculation: Speculation{Drafter: d, Tokens: 4}})
		submit := func(prompt []int32) {
			r := greedy(prompt, 100)
			for range r.MaxTokens {
				r.Forced = append(r.Forced, StepOutput{Tokens: []int32{7}})
			}
			if err := e.Submit(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			e.admit()
		}
		for i := range 4 {
			submit([]int32{int32(10 + i), 20, 30})
		}
		mustStep(t, e)
		mustStep(t, e)
		before := e.meter.stats.DraftTokens
		submit(make([]int32, 100))
		for e.queue.byID[4].output == 0 {
			mustStep(t, e)
		}
		e.publish()
		beside := 0
		for _, s := range e.Steps(keptSteps) {
			if s.Tokens > 50 {
				beside += s.DraftTokens
			}
		}
		if (beside > 0) != c.drafts {
			t.Errorf("%s: %d tokens were drafted beside a prompt, %d before", c.name, beside, before)
		}
	}
}

// TestDraftsPreemptNobody: in a cache with just the pages that requests come to as long as nothing is drafted, drafts that are never accepted take those that nobody needs in the step: nobody is
// preempted for one, and nobody waits.
func TestDraftsPreemptNobody(t *testing.T) {
	answers := []int{29, 29, 13, 13} // 4 pages of each when the short ones end, then 8 of each long one
	run := func(o Speculation) Stats {
		lim := backend.Limits{Tokens: 128, Seqs: 4, Logits: 64, PageSize: 4, SeqPages: 8, Pages: 16}
		e := on(t, idleSampler{idle{ref.New()}}, lim, Options{Index: "none", Predictor: dear{}, Speculation: o})
		got := make([]collected, len(answers))
		for i := range got {
			if err := e.Submit(context.Background(), got[i].into(greedy([]int32{int32(10 + i), 20, 30}, answers[i]))); err != nil {
				t.Fatal(err)
			}
		}
		e.admit()
		for len(e.queue.byID) > 0 {
			mustStep(t, e)
		}
		for i := range got {
			if len(got[i].tokens) != answers[i] || got[i].final.Err != nil {
				t.Errorf("request %d got %d tokens: %v", i, len(got[i].tokens), got[i].final.Err)
			}
		}
		return e.meter.stats
	}
	without := run(Speculation{})
	for most := range draft.MaxTokens {
		d := &fives{of: func(int64) bool { return true }}
		for range draft.MaxTokens {
			d.tokens = append(d.tokens, 6)
		}
		s := run(Speculation{Drafter: d, Tokens: 1 + most, Always: true})
		if without.Preemptions+s.Preemptions != 0 || s.DraftTokens == 0 || s.AcceptedTokens != 0 || s.Steps != without.Steps {
			t.Errorf("drafts of %d tokens: %d steps and %d requests preempted, %d and %d without; %d of %d drafted tokens were accepted", 1+most, s.Steps, s.Preemptions, without.Steps, without.Preemptions, s.AcceptedTokens, s.DraftTokens)
		}
	}
}

// observed is linear that notes what steps took.
type observed struct {
	linear
	took *[]float64
}

func (o observed) Observe(_ *graph.Step, seconds float64) float64 {
	*o.took = append(*o.took, seconds)
	return 0
}

// slow is fives that takes a time of its own for a draft.
type slow struct {
	fives
	now *time.Time
}

func (*slow) Concurrent() bool { return false }

func (d *slow) Propose(s []draft.Sequence) error {
	*d.now = d.now.Add(time.Second)
	return d.fives.Propose(s)
}

// TestDraftingIsPricedOnce: what drafting takes is the drafter's price, and no part of what steps are seen to take, which corrects theirs.
func TestDraftingIsPricedOnce(t *testing.T) {
	now, took := time.Unix(1e9, 0), []float64(nil)
	d := &slow{fives{of: func(int64) bool { return true }}, &now}
	e := on(t, untimed{ref.New()}, testLimits(1), Options{Clock: func() time.Time { return now }, Predictor: observed{linear{1, 0.001}, &took}, Speculation: Speculation{Drafter: d, Tokens: 4, Always: true}})
	if err := e.Submit(context.Background(), greedy([]int32{10, 20, 30}, 40)); err != nil {
		t.Fatal(err)
	}
	e.admit()
	for range 5 {
		mustStep(t, e)
	}
	if d.asked < 3 || now.Sub(time.Unix(1e9, 0)) < 3*time.Second {
		t.Fatalf("a drafter was asked %d times", d.asked)
	}
	for i, seconds := range took {
		if seconds != 0 {
			t.Errorf("step %d, on a device that takes no time, is seen to take %g s", i, seconds)
		}
	}
}
