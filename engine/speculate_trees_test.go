package engine

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// TestTreesOnCPU: on a CPU that is asked to be deterministic, log-probabilities of tokens that token trees verified are, to the bit, those without drafts: with plain
// caches, with latent ones and with chosen keys, over key tiles and segments.
func TestTreesOnCPU(t *testing.T) {
	lim := backend.Limits{Tokens: 128, Seqs: 4, Logits: 60, PageSize: 16, SeqPages: 20}
	for _, name := range []string{"builtin", "deepseek-v3-yarn", "deepseek-v3.2"} {
		t.Run(name, func(t *testing.T) {
			dir := "../../shared/reference/architectures/" + name
			if _, err := os.Stat(dir); name != "builtin" && err != nil {
				t.Skip("the reference models in ../shared are not here")
			}
			open := func(o Options) *stepped {
				if name == "builtin" {
					roomy := lim
					roomy.Pages = lim.Seqs * lim.SeqPages
					return still(t, modeldir.Builtin, roomy, o)
				}
				dev, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { dev.Close() })
				return windowedAt(t, dir, dev, graph.F16, lim, keepAll, o)
			}
			prompts := []int{20, 45, 110, 235}
			want := spoken(t, open(Options{}), prompts)
			d := &informed{func(id int64) (int, []sample.Choice) { return prompts[id], want[id] }, rand.New(rand.NewPCG(1, 2)), true, map[int64]bool{}}
			e := open(Options{Speculation: Speculation{Tokens: 12, Always: true, Drafter: d, Failed: func(err error) { t.Error(err) }}})
			for i, got := range spoken(t, e, prompts) {
				for n, c := range got {
					if w := want[i][n]; c.Token != w.Token || c.Logprob != w.Logprob {
						t.Errorf("token %d behind a prompt of %d is %d (%v), and without drafts %d (%v)", n, prompts[i], c.Token, c.Logprob, w.Token, w.Logprob)
						break
					}
				}
			}
			if s := e.meter.stats; s.AcceptedTokens < 40 {
				t.Errorf("%d of %d tokens accepted", s.AcceptedTokens, s.DraftTokens)
			}
		})
	}
}

// spoken is what requests with prompts of some lengths are answered, sampled.
func spoken(t *testing.T, e *stepped, prompts []int) [][]sample.Choice {
	t.Helper()
	answers := make([][]sample.Choice, len(prompts))
	for i, n := range prompts {
		r := greedy(words(i, 1, 40, n), 40)
		r.Params.Temperature, r.Params.Seed, r.Params.Logprobs = 1.5, uint64(i), true
		r.Emit = func(c sample.Choice) bool { answers[i] = append(answers[i], c); return false }
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	for e.admit(); len(e.queue.byID) > 0; e.admit() {
		mustStep(t, e)
	}
	return answers
}
