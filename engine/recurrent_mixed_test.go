package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
)

// TestRecurrentMixed: with memory for few of them, what a request of a hybrid gets does not depend on the requests beside it: which are preempted or
// swapped out, what is found in the cache, how prompts are cut, in RIDGE_INTERLEAVINGS random interleavings of each setup (make hybrids: 10,000 in all).
func TestRecurrentMixed(t *testing.T) {
	interleavings := 20
	if n, err := strconv.Atoi(os.Getenv("RIDGE_INTERLEAVINGS")); err == nil {
		interleavings = n
	}
	shared := "../../shared/reference/architectures/"
	models := []struct {
		dir string
		how keep
	}{{"../internal/check/testdata/kimi-linear", tightly}, {"../internal/check/testdata/kimi-linear", swapped}, {shared + "qwen3.5", tightly}, {shared + "falcon-h1", swapped}, {shared + "qwen3.5", windows}, {"../internal/check/testdata/kimi-linear", windows}}
	if testing.Short() {
		models, interleavings = models[:2], 8
	}
	for _, s := range models {
		t.Run(fmt.Sprintf("%s/%d", filepath.Base(s.dir), s.how), func(t *testing.T) {
			if _, err := os.Stat(s.dir); err != nil {
				t.Skip("the reference models are not here:", err)
			}
			mixedStates(t, s.dir, s.how, interleavings)
		})
	}
}

// mixedStates compares requests that run beside others with what they get alone, without a cache.
func mixedStates(t *testing.T, dir string, how keep, interleavings int) {
	dev, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true}) // what is looked for is above it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	lim := backend.Limits{Tokens: 24, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 8}
	single := lim
	single.Seqs, single.Logits = 1, 1
	const requests = 30
	random := rand.New(rand.NewPCG(5, 6))
	one := windowedAt(t, dir, dev, graph.F32, single, keepAll, Options{Index: "none"})
	var asked []Request
	var alone [][]int32
	for i := range requests {
		n := 1 + random.IntN(70)
		p := sample.Default()
		p.Seed, p.Temperature = uint64(i), float64(i%2)
		asked = append(asked, Request{Prompt: words(i%4, i, random.IntN(n+1), n), Params: p, MaxTokens: 1 + random.IntN(56)})
		got := ask(t, one, asked[i])
		for one.admit(); len(one.queue.byID) > 0; one.admit() {
			mustStepOrSwap(t, one)
		}
		alone = append(alone, *got)
	}
	mixed(t, windowedAt(t, dir, dev, graph.F32, lim, how, Options{Index: []string{"radix", "hash"}[int(how)%2]}), how, asked, alone, interleavings, random)
}

// mixed has an engine answer requests in random interleavings, and compares with what each got alone.
func mixed(t *testing.T, e *stepped, how keep, asked []Request, alone [][]int32, interleavings int, random *rand.Rand) {
	t.Helper()
	for n := range interleavings {
		order := random.Perm(len(asked))[:4+random.IntN(12)]
		var got []*[]int32
		for _, i := range order {
			got = append(got, ask(t, e, asked[i]))
			for range random.IntN(12) {
				if e.admit(); len(e.queue.byID) > 0 {
					mustStepOrSwap(t, e)
				}
			}
		}
		for e.admit(); len(e.queue.byID) > 0; e.admit() {
			mustStepOrSwap(t, e)
		}
		for j, i := range order {
			if !slices.Equal(*got[j], alone[i]) {
				t.Fatalf("interleaving %d: request %d got %v, and alone %v", n, i, *got[j], alone[i])
			}
		}
		if n%500 == 499 {
			t.Logf("%d interleavings", n+1)
		}
		if e.pages.Available() != e.pages.Total() {
			t.Fatalf("interleaving %d: pages are in use after the last request: %v of %v available", n, e.pages.Available(), e.pages.Total())
		}
	}
	e.publish()
	if s := e.pages.Stats(); how == windows && (s.Stored == 0 || s.Fetched == 0) {
		t.Errorf("no state was stored in pages, or none went on from there: %+v", s)
	}
	if s := e.Stats(); s.Found == 0 || how == tightly && s.Preemptions == 0 || how == swapped && s.Swaps == 0 {
		t.Errorf("nothing was found, or nothing preempted: %+v", s)
	}
}

// ask submits a request and gives the tokens that it is getting.
func ask(t *testing.T, e *stepped, r Request) *[]int32 {
	t.Helper()
	var got []int32
	r.Emit = func(c sample.Choice) bool {
		got = append(got, c.Token)
		return false
	}
	r.Done = func(f Final) {
		if f.Err != nil {
			t.Error(f.Err)
		}
	}
	if err := e.Submit(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	return &got
}
