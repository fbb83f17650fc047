package engine

import (
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// TestStepsLeaveNoTimeOut: while there is work, a step begins where the one before ended, whatever happened between; after a
// pause it does not.
func TestStepsLeaveNoTimeOut(t *testing.T) {
	now := time.Unix(1, 0)
	lim := backend.Limits{Tokens: 64, Seqs: 2, Logits: 2, PageSize: 16, SeqPages: 8, Pages: 16}
	e := still(t, modeldir.Builtin, lim, Options{Clock: func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}})
	if err := e.Submit(t.Context(), greedy([]int32{5, 6, 7}, 6)); err != nil {
		t.Fatal(err)
	}
	e.admit()
	for len(e.queue.byID) > 0 {
		mustStep(t, e)
		now = now.Add(50 * time.Millisecond) // others are on the processor
	}
	steps := e.Steps(100)
	if len(steps) != 6 {
		t.Fatalf("%d steps of 6", len(steps))
	}
	for i := 1; i < len(steps); i++ {
		if began := steps[i].At - steps[i].Actual; began != steps[i-1].At {
			t.Errorf("step %d began at %v; the one before ended at %v", i, began, steps[i-1].At)
		}
	}
	mustStep(t, e) // of no request
	if err := e.Submit(t.Context(), greedy([]int32{5, 6, 7}, 1)); err != nil {
		t.Fatal(err)
	}
	e.admit()
	mustStep(t, e)
	if last := e.Steps(1)[0]; last.At-last.Actual < steps[5].At+50*time.Millisecond {
		t.Errorf("the step after a pause began at %v, in the pause after %v", last.At-last.Actual, steps[5].At)
	}
}
