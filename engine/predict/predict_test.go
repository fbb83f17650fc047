package predict

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
)

func stepOf(tokens int) *graph.Step { return &graph.Step{Seqs: []graph.Seq{{New: tokens}}} }

// TestAveragesFindALine: after steps whose time is a + b·tokens, or the weights' for few tokens, predictions are near it.
func TestAveragesFindALine(t *testing.T) {
	took := func(tokens int) float64 { return max(0.05, 0.02+0.003*float64(tokens)) }
	var a averages
	if p := a.Predict(sched.Shape{Tokens: 5}); p != 0 {
		t.Errorf("%g s are predicted before the first step", p)
	}
	for n := 1; n <= 512; n += n/2 + 1 {
		for range 100 {
			a.Observe(stepOf(n), took(n))
		}
	}
	for _, n := range []int{1, 3, 20, 50, 100, 333, 512, 2000} {
		if got := a.Predict(sched.Shape{Tokens: n}); math.Abs(got/took(n)-1) > 0.15 {
			t.Errorf("%d tokens: %.4f s predicted, %.4f s it takes", n, got, took(n))
		}
	}
}

// TestAveragesNeverShrink: whatever was measured, more tokens are not predicted to take less time; the builder's search
// for the largest chunk relies on it.
func TestAveragesNeverShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a averages
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			a.Observe(stepOf(rapid.IntRange(1, 600).Draw(t, "tokens")), rapid.Float64Range(0.001, 2).Draw(t, "seconds"))
		}
		last := 0.0
		for n := 1; n < 700; n++ {
			p := a.Predict(sched.Shape{Tokens: n})
			if !(p >= last) {
				t.Fatalf("%d tokens: %g s; %g s for one fewer", n, p, last)
			}
			last = p
		}
	})
}

// TestAveragesOfStalls: a step that another process held up for long does not become what steps take.
func TestAveragesOfStalls(t *testing.T) {
	var a averages
	for i := range 200 {
		took := 0.002
		if i%50 == 49 {
			took = 0.5
		}
		a.Observe(stepOf(5), took)
	}
	a.Observe(stepOf(2), 0.1) // the only one of so few tokens
	if got := a.Predict(sched.Shape{Tokens: 5}); got > 0.003 {
		t.Errorf("steps of 2 ms, four of 200 of them stalled for half a second, are predicted to take %.1f ms", got*1e3)
	}
}

// TestAveragesOfFirstSteps: a first step that took seconds, for kernels that the device loaded, is forgotten when one of as many tokens or more takes a part of that.
func TestAveragesOfFirstSteps(t *testing.T) {
	for _, next := range []int{20, 2048} {
		var a averages
		a.Observe(stepOf(24), 1.7)
		a.Observe(stepOf(next), 0.03)
		for _, n := range []int{1, 17, 24, 2048} {
			if p := a.Predict(sched.Shape{Tokens: n}); p > 0.03*2048/float64(next)+1e-9 {
				t.Errorf("after a first step of 1.7 s and one of %d tokens in 0.03 s %d tokens are predicted to take %.3f s", next, n, p)
			}
		}
	}
}

// TestWait: a request waits for the prompts before its own, and for a place.
func TestWait(t *testing.T) {
	for free, want := range map[int]time.Duration{0: 420, 2: 220, 9: 70} {
		e := TTFT{perToken: time.Millisecond, turnover: 100 * time.Millisecond, free: free, waiting: 3, backlog: 50}
		if got := e.Wait(20); got != want*time.Millisecond {
			t.Errorf("with %d places free: %v, not %d ms", free, got, want)
		}
	}
}

// slope is a Predictor of a millisecond for each token.
type slope struct{}

func (slope) Predict(shape sched.Shape) float64    { return float64(shape.Tokens) / 1000 }
func (slope) Observe(*graph.Step, float64) float64 { return 0 }

// TestTTFT: at a millisecond a token, in steps of 100 tokens or, beside an answer, of 50 ms.
func TestTTFT(t *testing.T) {
	times := New(slope{})
	l := Load{Free: 2, StepTokens: 100, PageSize: 16, TargetITL: 50 * time.Millisecond}
	if e := times.TTFT(l); e.answering != 0 || e.perToken != time.Millisecond || e.free != 2 {
		t.Errorf("with no request there: %+v", e)
	}
	l.Running, l.Free = 1, 1
	perToken := 50.0 / 49 // ms: 49 of the prompt's and the answer's one
	if e := times.TTFT(l); e.answering != time.Millisecond || math.Abs(e.perToken.Seconds()*1e3-perToken) > 1e-3 || e.free != 1 {
		t.Errorf("beside an answer: %+v; a token of a prompt takes %.3f ms", e, perToken)
	}
	l.TargetITL, l.ITLRatio = 0, 50 // times the answer's millisecond
	if e := times.TTFT(l); math.Abs(e.perToken.Seconds()*1e3-perToken) > 1e-3 {
		t.Errorf("beside an answer, with a ratio: %+v; a token of a prompt takes %.3f ms", e, perToken)
	}
}
