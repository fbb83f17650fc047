package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// scores asks for the log-probabilities of a prompt and an answer of out tokens. It counts what comes out of order.
type scores struct {
	of    []float32 // of each token of the prompt from the second on
	top   [][]sample.Logprob
	wrong int
	token []int32
	final Final
}

func (s *scores) request(prompt []int32, out int) Request {
	p := sample.Default()
	p.Temperature, p.Logprobs, p.TopLogprobs = 0, true, 2
	return Request{
		Prompt: prompt, Params: p, MaxTokens: out,
		PromptLogprobs: func(position int, c sample.Choice) {
			if position != len(s.of)+1 || c.Token != prompt[position] || len(s.token) > 0 {
				s.wrong++
			}
			s.of, s.top = append(s.of, c.Logprob), append(s.top, c.Top)
		},
		Emit: func(c sample.Choice) bool { s.token = append(s.token, c.Token); return false },
		Done: func(f Final) { s.final = f },
	}
}

// TestPromptLogprobs: the log-probabilities of a prompt are those of the tokens had they been forced one by one as answers, whatever chunks it is computed
// in and whatever shares the steps, with its beginning in the cache or not, on devices whose tokens the host samples and those that sample themselves.
func TestPromptLogprobs(t *testing.T) {
	prompt := make([]int32, 75)
	for i := range prompt {
		prompt[i] = int32(3 + i*i%90)
	}
	var want []float32 // each as the answer to those before it
	reference := onRef(t, false, backend.Limits{Tokens: 128, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: 8, Pages: 8}, Options{Index: "none"})
	for n := 1; n < len(prompt); n++ {
		r := greedy(prompt[:n], 1)
		r.Params.Logprobs, r.Params.Allowed = true, prompt[n:n+1]
		r.Emit = func(c sample.Choice) bool { want = append(want, c.Logprob); return false }
		if err := reference.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		runAll(t, reference)
	}
	for name, lim := range map[string]backend.Limits{
		"whole":    {Tokens: 128, Seqs: 4, Logits: 128, PageSize: 16, SeqPages: 8, Pages: 64},
		"few rows": {Tokens: 64, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 8, Pages: 64},
		"chunks":   {Tokens: 24, Seqs: 4, Logits: 16, PageSize: 16, SeqPages: 8, Pages: 64},
		"pages":    {Tokens: 64, Seqs: 4, Logits: 16, PageSize: 16, SeqPages: 8, Pages: 9},
	} {
		for _, samples := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " device samples ", samples), func(t *testing.T) {
				e := onRef(t, samples, lim, Options{})
				var other []int32
				neighbour := greedy(prompt[:40], 30)
				neighbour.Emit = func(c sample.Choice) bool { other = append(other, c.Token); return false }
				var with, without scores
				for _, r := range []Request{neighbour, with.request(prompt, 5), without.request(prompt, 0)} {
					if err := e.Submit(context.Background(), r); err != nil {
						t.Fatal(err)
					}
				}
				runAll(t, e)
				if len(other) != 30 || len(with.token) != 5 || len(without.token) != 0 || without.final.Reason != sample.ReasonLength {
					t.Errorf("answers of %d, %d and %d tokens; %+v", len(other), len(with.token), len(without.token), without.final)
				}
				for _, s := range []*scores{&with, &without} {
					if s.final.Err != nil || s.wrong > 0 || len(s.of) != len(want) {
						t.Fatalf("%d log-probabilities for %d, %d out of order; %v", len(s.of), len(want), s.wrong, s.final.Err)
					}
					for i := range want {
						if d := math.Abs(float64(s.of[i] - want[i])); d > 2e-3*(1+math.Abs(float64(want[i]))) {
							t.Errorf("token %d: %g, wanted %g", i+1, s.of[i], want[i])
						}
						if top := s.top[i]; len(top) != 2 || top[0].Logprob < top[1].Logprob || top[0].Logprob < s.of[i] {
							t.Errorf("token %d: %g, and the likeliest are %v", i+1, s.of[i], top)
						}
					}
				}
			})
		}
	}
}

// TestPromptLogprobsRetried: after a step that failed, rows that were lost come, and those that had come do not come again.
func TestPromptLogprobsRetried(t *testing.T) {
	prompt := make([]int32, 40)
	for i := range prompt {
		prompt[i] = int32(3 + i*i%90)
	}
	e := still(t, modeldir.Builtin, backend.Limits{Tokens: 24, Seqs: 2, Logits: 16, PageSize: 16, SeqPages: 8, Pages: 16}, Options{})
	var s scores
	if err := e.Submit(context.Background(), s.request(prompt, 2)); err != nil {
		t.Fatal(err)
	}
	e.admit()
	mustStep(t, e)
	if len(s.of) != 16 {
		t.Fatalf("%d log-probabilities after a step with 16 rows", len(s.of))
	}
	e.queue.startOver() // as after a failure
	runAll(t, e)
	if s.wrong > 0 || len(s.of) != len(prompt)-1 || len(s.token) != 2 {
		t.Errorf("%d log-probabilities, %d out of order, %d tokens", len(s.of), s.wrong, len(s.token))
	}
}

// TestPromptLogprobsPanic: an owner that panics loses its own request alone.
func TestPromptLogprobsPanic(t *testing.T) {
	prompt := slices.Repeat([]int32{5, 9, 11}, 10)
	e := still(t, modeldir.Builtin, backend.Limits{Tokens: 64, Seqs: 2, Logits: 16, PageSize: 16, SeqPages: 8, Pages: 16}, Options{})
	var bad, good scores
	r := bad.request(prompt, 2)
	r.PromptLogprobs = func(int, sample.Choice) { panic("mine") }
	for _, r := range []Request{r, good.request(prompt, 2)} {
		if err := e.Submit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	runAll(t, e)
	if bad.final.Err == nil || len(bad.token) > 0 || good.final.Err != nil || len(good.of) != len(prompt)-1 {
		t.Errorf("%+v and %+v", bad.final, good.final)
	}
}

// runAll steps until nothing is left.
func runAll(t *testing.T, e *stepped) {
	t.Helper()
	for e.admit(); len(e.queue.byID) > 0; e.admit() {
		mustStep(t, e)
	}
}
