package ridge_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
)

// explained is what is said of n answers made side by side.
func explained(t *testing.T, m *ridge.Model, n int) []ridge.Explanation {
	t.Helper()
	p := ridge.Greedy()
	p.MaxTokens, p.IgnoreEnd = 60, true
	all := make([]ridge.Explanation, n)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			for piece, err := range m.Generate(context.Background(), strings.Repeat("Once upon a time there was a fox. ", 12+i), p) {
				if err != nil {
					t.Error(err)
				} else if piece.Finish != nil {
					all[i] = m.Explain(piece.Finish)
				}
			}
		})
	}
	wait.Wait()
	return all
}

// TestExplain: the parts of an answer's time add up to it, nearly all of it is known to the engine, an answer among others
// pays for neighbours, a prompt that is in the cache costs nothing again, and the floor lies below.
func TestExplain(t *testing.T) {
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	check := func(x ridge.Explanation) (known float64, parts map[string]float64) {
		t.Helper()
		parts = map[string]float64{}
		sum := 0.0
		for _, p := range x.Parts {
			parts[p.What] += p.Seconds
			sum += p.Seconds
		}
		if math.Abs(sum-x.Wall) > 1e-6 {
			t.Errorf("parts of %g s for a wall time of %g s: %+v", sum, x.Wall, x.Parts)
		}
		if !(x.Floor > 0) || x.Floor > x.Wall {
			t.Errorf("a floor of %g s for %g s", x.Floor, x.Wall)
		}
		return 1 - parts["template and tokenizing"]/x.Wall, parts
	}
	best := 0.0
	for range 20 { // a busy machine may hold a goroutine up before it comes to the engine
		for _, x := range explained(t, m, 3) {
			known, _ := check(x)
			best = max(best, known)
		}
		if best >= 0.98 {
			break
		}
	}
	if best < 0.98 {
		t.Errorf("the engine knows of %.1f %% of the time", 100*best)
	}
	neighbours := 0.0
	for range 20 { // on a busy machine one may be over before the next has come
		for _, x := range explained(t, m, 4) {
			_, parts := check(x)
			neighbours += parts["other requests in the batch"]
		}
		if neighbours > 0 {
			break
		}
	}
	if neighbours == 0 {
		t.Error("four answers at once and none had neighbours")
	}
	again := explained(t, m, 1)[0]
	_, parts := check(again)
	if again.Cached == 0 || !(again.Saved > 0) || parts["other requests in the batch"] > 0.01*again.Wall {
		t.Errorf("an answer alone, to a prompt that is in the cache: %+v", again)
	}
}
