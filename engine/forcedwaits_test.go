package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// decisions records what is scheduled, and what a replay of each request must be given.
type decisions struct {
	unrecorded
	of        func(id int64) *request
	schedules []string
	outputs   map[int64][]StepOutput
	drafts    map[int64]map[int]draft.Draft
	waits     map[int64]map[int]Wait
	apart     int
}

func (d *decisions) Scheduled(p *sched.Schedule) {
	s := ""
	for _, c := range p.Chunks {
		s += fmt.Sprint(c.Request.ID, ":", c.Tokens, " ")
	}
	d.schedules = append(d.schedules, s)
}

func (d *decisions) Output(id int64, s StepOutput) {
	s.Tokens = slices.Clone(s.Tokens)
	d.outputs[id] = append(d.outputs[id], s)
}

func (d *decisions) Drafted(id int64, x draft.Draft) {
	if d.drafts[id] == nil {
		d.drafts[id] = map[int]draft.Draft{}
	}
	d.drafts[id][len(d.of(id).tokens)] = draft.Draft{Tokens: slices.Clone(x.Tokens)}
	d.schedules = append(d.schedules, fmt.Sprint("draft ", id, " ", x.Tokens))
}

func (d *decisions) Waits(id int64, known int, how Wait) {
	if d.waits[id] == nil {
		d.waits[id] = map[int]Wait{}
	}
	if d.waits[id][known] = how; how == WaitApart {
		d.apart++
	}
}

// TestForcedWaits: requests that are given their answers, drafts and how they waited are scheduled as they were, whatever prices and gaps are then.
func TestForcedWaits(t *testing.T) {
	const requests = 6
	run := func(forced *decisions) *decisions {
		d := &decisions{outputs: map[int64][]StepOutput{}, drafts: map[int64]map[int]draft.Draft{}, waits: map[int64]map[int]Wait{}}
		o := Options{Recorder: d, Predictor: dear{}, Speculation: Speculation{Drafter: &fives{of: func(int64) bool { return false }}, Tokens: 4}}
		if forced == nil {
			o.Predictor = fickle{rand.New(rand.NewPCG(1, 2))}
			o.Speculation.Drafter = &fives{of: func(id int64) bool { return id%2 == 0 }}
		}
		e := on(t, idleSampler{idle{ref.New()}}, testLimits(requests), o)
		d.of = func(id int64) *request { return e.queue.byID[id] }
		for i := range int64(requests) {
			r := greedy([]int32{int32(10 + i), 20, 30}, 90+int(i))
			if forced != nil {
				r.Forced, r.ForcedDrafts, r.ForcedWaits = forced.outputs[i], forced.drafts[i], forced.waits[i]
				if r.ForcedDrafts == nil {
					r.ForcedDrafts = map[int]draft.Draft{}
				}
			}
			if err := e.Submit(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
		for e.admit(); len(e.queue.byID) > 0; e.admit() {
			if forced == nil {
				e.meter.gap = 0.3
			}
			mustStep(t, e)
		}
		return d
	}
	was := run(nil)
	if again := run(was); !slices.Equal(again.schedules, was.schedules) || again.apart != was.apart || was.apart < 5 {
		for i := range min(len(again.schedules), len(was.schedules)) {
			if again.schedules[i] != was.schedules[i] {
				t.Fatalf("decision %d: %q, and it was %q", i, again.schedules[i], was.schedules[i])
			}
		}
		t.Errorf("%d decisions, %d waits apart; there were %d and %d", len(again.schedules), again.apart, len(was.schedules), was.apart)
	}
}
