package background

import (
	"testing"
	"testing/synctest"
	"time"
)

// spin takes so much of a processor.
func spin(d time.Duration) {
	for began := threadTime(); threadTime()-began < d; {
	}
}

// stepped has steps take all processors until the test ends.
func stepped(t *testing.T) {
	StepBegins()
	t.Cleanup(func() { StepEnds(); computing.ended.Store(0) })
}

// TestRests: work rests while steps take all processors, in proportion to what it took, and not otherwise.
func TestRests(t *testing.T) {
	if d := restAfter(time.Millisecond); d != 0 {
		t.Errorf("without steps work rests for %v", d)
	}
	stepped(t)
	for took, want := range map[time.Duration]time.Duration{0: 0, time.Millisecond: 9 * time.Millisecond, time.Second: longest} {
		if d := restAfter(took); d != want {
			t.Errorf("after %v work rests for %v, not %v", took, d, want)
		}
	}
	StepBegins()
	StepEnds()
	if !Stepping() {
		t.Error("one of two steps has ended, and there is none")
	}
}

// TestTurns: a turn that has lasted long enough ends with a rest, and the next begins then.
func TestTurns(t *testing.T) {
	stepped(t)
	Run(func(turns *Turns) {
		rest, since := time.Duration(0), time.Hour
		for range 10 { // the runtime's signals may end a rest early, and a thread that is interrupted has taken time itself
			spin(turnTime)
			began := time.Now()
			turns.Pause()
			rest, since = max(rest, time.Since(began)), min(since, threadTime()-turns.began)
		}
		if rest < turnTime*resting/2 {
			t.Errorf("the longest rest was %v", rest)
		}
		if since > turnTime/2 {
			t.Errorf("the next turn began %v ago", since)
		}
	})
}

// TestLaneRests: the place of work stays empty for nine times as long as it took, while steps take all processors; its caller has the answer before.
func TestLaneRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stepped(t)
		l := NewLane(1)
		const took = 2 * time.Millisecond
		began := time.Now()
		for i := range 3 {
			if err := l.Do(t.Context(), small, func() {
				if waited := time.Since(began); i > 0 && waited < resting*took {
					t.Errorf("the next began %v later", waited)
				}
				began = time.Now()
				spin(took)
			}); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > 0 { // the bubble's clock stands still while somebody computes
				t.Errorf("the caller waited for %v", time.Since(began))
			}
		}
		time.Sleep(longest)
	})
}
