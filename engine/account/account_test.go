package account

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// perToken spends a second on computing every token, and one on the host, which is measured and does not count.
type perToken struct{}

func (perToken) Explain(s *graph.Step) (by [price.Causes]float64) {
	by[price.ByCompute], by[price.ByHost] = float64(s.Tokens()), 1
	return by
}

// TestPartsAddUp: whatever steps a request takes part in, and whether it was preempted between, its account adds up to the time from
// its beginning to its end, and has no part below zero.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1, 0)
		pass := func(what string) {
			now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, what)) * time.Millisecond)
		}
		opened := now
		l := Open(now)
		d := NewDivider(perToken{})
		if rapid.Bool().Draw(t, "averages") {
			d = NewDivider(nil)
		}
		pass("queue")
		for n := range rapid.IntRange(0, 12).Draw(t, "steps") {
			began := now
			pass("host before")
			launched := now
			pass("device")
			size := &graph.Step{Logits: 2, Seqs: []graph.Seq{{New: rapid.IntRange(1, 9).Draw(t, "other")}, {New: rapid.IntRange(1, 9).Draw(t, "own")}}}
			if rapid.IntRange(0, 3).Draw(t, "takes part") > 0 {
				d.Begin(Step{Number: int64(n + 1), Size: size, Began: began, Launched: launched, Ready: now})
				d.Charge(&l, 1, n > 2)
			} else if rapid.Bool().Draw(t, "preempted") {
				l.Preempt()
			}
			pass("host after")
		}
		a := l.Close(now)
		if a.Sum() != now.Sub(opened) {
			t.Fatalf("the parts are %v of %v: %+v", a.Sum(), now.Sub(opened), a)
		}
		for _, part := range append(append(a.Prefill[:], a.Decode[:]...), a.Queue, a.Preempted, a.OtherRequests, a.Host) {
			if part < 0 {
				t.Fatalf("a part is below zero: %+v", a)
			}
		}
	})
}

// TestShareOfAStep: of a step with nine tokens a request with three gets a third; the rest is other requests'.
func TestShareOfAStep(t *testing.T) {
	start := time.Unix(1, 0)
	l, d := Open(start), NewDivider(perToken{})
	d.Begin(Step{Number: 1, Size: &graph.Step{Seqs: []graph.Seq{{New: 6}, {New: 3}}}, Began: start, Launched: start.Add(time.Second), Ready: start.Add(10 * time.Second), Idle: 0.5})
	d.Charge(&l, 1, false)
	a := l.Close(start.Add(11 * time.Second))
	if a.Host != 2*time.Second || a.Prefill[price.ByCompute] != 3*time.Second || a.OtherRequests != 6*time.Second || a.Queue != 0 || a.Idle != 4500*time.Millisecond {
		t.Errorf("%+v; 2 s of the host, 3 s of computing and 6 s of other requests are right, and 4.5 s of the step's 9 in which half of the stages had nothing to do", a)
	}
}
