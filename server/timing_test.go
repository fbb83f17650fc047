package server_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestTimingTellsNothing: what a tenant's prompt takes is the same whether or not another's is cached, in tokens computed and in steps. With
// RIDGE_TIMINGS=N it is also measured N times: from the time to the first token no better than chance can be told which it was.
func TestTimingTellsNothing(t *testing.T) {
	n := 40
	measure, _ := strconv.Atoi(os.Getenv("RIDGE_TIMINGS"))
	n = max(n, measure)
	h, m := start(t, ridge.Options{}, server.Options{Keys: aliceAndBob})
	alice, bob := tenant{t, h.URL, "a"}, tenant{t, h.URL, "b"}
	ask := func(c tenant, prompt int) (took time.Duration, computed, steps int64) {
		ids := fmt.Sprint(prompt%4000+1, ",", prompt/4000+1)
		for i := range 62 {
			ids += fmt.Sprint(",", i+100)
		}
		before, began := m.Stats(), time.Now()
		status, text := c.call("POST", "/v1/completions", `{"prompt": [`+ids+`], "max_tokens": 1}`)
		took = time.Since(began)
		if status != 200 {
			t.Fatal(text)
		}
		for m.Stats().Running > 0 { // until the step's figures are there
			time.Sleep(50 * time.Microsecond)
		}
		after := m.Stats()
		return took, int64(after.Computed - before.Computed), int64(after.Steps - before.Steps)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var cached, fresh []time.Duration
	work := map[[2]int64]bool{}
	for i := range n {
		both := random.IntN(2) == 0
		if both {
			ask(alice, i)
		} else {
			ask(alice, n+i)
		}
		took, computed, steps := ask(bob, i)
		if work[[2]int64{computed, steps}] = true; both {
			cached = append(cached, took)
		} else {
			fresh = append(fresh, took)
		}
	}
	if len(work) != 1 {
		t.Errorf("the work of a request is told apart by what another tenant has cached: %v (tokens, steps)", work)
	}
	if auc := areaUnderCurve(cached, fresh); measure > 0 {
		if t.Logf("AUC %.4f of %d timings", auc, n); auc > 0.55 || auc < 0.45 {
			t.Errorf("from %d timings it can be told whether another's prompt is cached: AUC %.3f", n, auc)
		}
	}
}

// areaUnderCurve is how often one of a is below one of b.
func areaUnderCurve(a, b []time.Duration) float64 {
	type timing struct {
		took time.Duration
		isA  bool
	}
	var all []timing
	for _, d := range a {
		all = append(all, timing{d, true})
	}
	for _, d := range b {
		all = append(all, timing{d, false})
	}
	slices.SortFunc(all, func(x, y timing) int { return cmp.Compare(x.took, y.took) })
	below, area := 0, 0
	for _, x := range all {
		if x.isA {
			below++
		} else {
			area += below
		}
	}
	return float64(area) / float64(len(a)*len(b))
}
