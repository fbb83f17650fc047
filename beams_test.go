package ridge_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// found is an answer of a reference search.
type found struct {
	tokens []int32
	score  float64
	ended  bool
}

// searched is beam search as vLLM's program has it, without any of what makes it fast: every beginning is asked anew what comes next, for so many steps.
func searched(t *testing.T, m *ridge.Model, prompt []int32, width, room int, penalty float64, early, ignoreEnd bool) []found {
	t.Helper()
	type beam struct {
		tokens []int32
		sum    float64
	}
	next := func(tokens []int32) []struct {
		id      int32
		logprob float64
	} {
		p := ridge.Greedy()
		p.MaxTokens, p.IgnoreEnd, p.Special = 1, true, true
		p.Sampling.Logprobs, p.Sampling.TopLogprobs = true, 2*width
		all, err := m.GenerateMany(context.Background(), slices.Concat(prompt, tokens), []ridge.Params{p})
		if err != nil {
			t.Fatal(err)
		}
		var top []struct {
			id      int32
			logprob float64
		}
		for piece, err := range all[0] {
			if err != nil {
				t.Fatal(err)
			}
			if piece.Token != nil {
				for _, x := range piece.Token.Top {
					top = append(top, struct {
						id      int32
						logprob float64
					}{x.Token, float64(x.Logprob)})
				}
			}
		}
		return top
	}
	score := func(sum float64, n int) float64 { return sum / math.Pow(float64(len(prompt)+n), penalty) }
	order := func(all []found) {
		slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.score, a.score) })
	}
	live, ended := []beam{{}}, []found(nil)
	for range room {
		type scored struct {
			beam
			score float64
		}
		var on []scored
		for _, b := range live {
			for _, x := range next(b.tokens) {
				if sum := b.sum + x.logprob; !ignoreEnd && slices.Contains(m.Ends(), x.id) {
					ended = append(ended, found{b.tokens, score(sum, len(b.tokens)), true})
				} else {
					tokens := append(slices.Clone(b.tokens), x.id)
					on = append(on, scored{beam{tokens, sum}, score(sum, len(tokens))})
				}
			}
		}
		slices.SortStableFunc(on, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
		live = live[:0]
		for _, x := range on[:min(width, len(on))] {
			live = append(live, x.beam)
		}
		if early && len(ended) >= width {
			order(ended)
			return ended[:width]
		}
	}
	for _, b := range live {
		ended = append(ended, found{b.tokens, score(b.sum, len(b.tokens)), false})
	}
	order(ended)
	return ended[:min(width, len(ended))]
}

// TestBeams: answers that are searched for are those of the reference, in its order, whatever the width, the penalty and the end, also where a step has less room than there are beams; and their
// texts and log-probabilities are those of the tokens.
func TestBeams(t *testing.T) {
	ended := 0
	for _, dir := range []string{"llama-default", "gemma3-pattern"} {
		path := withTokenizer(t, "internal/check/testdata/"+dir)
		reference := loadFrom(t, path, ridge.Options{Threads: 1, Cache: "f32", Context: 128, Deterministic: true})
		m := loadFrom(t, path, ridge.Options{Threads: 1, Cache: "f32", Context: 128, Deterministic: true, Parallel: 3})
		for i, c := range []struct {
			width, room   int
			penalty       float64
			early, ignore bool
		}{{1, 12, 1, false, false}, {3, 20, 1, false, false}, {4, 20, 0, false, false}, {5, 9, 2.5, false, true}, {4, 24, 1, true, false}, {ridge.MaxBeams, 6, -1, false, false}} {
			prompt := []int32{5, int32(6 + 3*i), 7, 40}
			p := ridge.Greedy()
			p.MaxTokens, p.IgnoreEnd, p.Sampling.Logprobs = c.room, c.ignore, true
			p.Beams = &ridge.BeamSearch{Width: c.width, LengthPenalty: c.penalty, Early: c.early}
			all, err := m.GenerateMany(t.Context(), prompt, slices.Repeat([]ridge.Params{p}, c.width))
			if err != nil {
				t.Fatal(err)
			}
			var got []found
			for _, a := range all {
				var f found
				sum, text := 0.0, ""
				for piece, err := range a {
					if err != nil {
						t.Fatal(err)
					}
					text += piece.Text
					if piece.Token != nil {
						f.tokens, sum = append(f.tokens, piece.Token.Token), sum+float64(piece.Token.Logprob)
					}
					if e := piece.Finish; e != nil {
						if f.ended = e.End != nil; f.ended {
							sum += float64(e.End.Logprob)
							ended++
						}
						if f.ended != (e.Reason == ridge.FinishStop) || e.Output != len(f.tokens) || e.Prompt != len(prompt) {
							t.Errorf("the end of %d tokens is %+v", len(f.tokens), e)
						}
					}
				}
				f.score = sum / math.Pow(float64(len(prompt)+len(f.tokens)), c.penalty)
				got = append(got, f)
				if want := m.Decode(f.tokens); text != want {
					t.Errorf("the text is %q, and that of its tokens %q", text, want)
				}
			}
			if want := searched(t, reference, prompt, c.width, c.room, c.penalty, c.early, c.ignore); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, %+v:\n%v\nand by the reference\n%v", dir, c, got, want)
			}
		}
	}
	if ended < 5 {
		t.Errorf("%d answers ended before they had to", ended)
	}
}

// TestBeamsRefused: what a search cannot heed is refused by name.
func TestBeamsRefused(t *testing.T) {
	m := loadFrom(t, withTokenizer(t, "internal/check/testdata/llama-default"), ridge.Options{Threads: 1, Context: 64})
	for want, change := range map[string]func(*ridge.Params){
		"beam_width is 0":       func(p *ridge.Params) { p.Beams.Width = 0 },
		"beam_width is 11":      func(p *ridge.Params) { p.Beams.Width = 11 },
		"length_penalty is NaN": func(p *ridge.Params) { p.Beams.LengthPenalty = math.NaN() },
		"with stop":             func(p *ridge.Params) { p.Stop = []string{"x"} },
		"with min_tokens":       func(p *ridge.Params) { p.MinTokens = 2 },
		"with echo":             func(p *ridge.Params) { p.NoAnswer = true },
		"with penalties":        func(p *ridge.Params) { p.Sampling.PresencePenalty = 1 },
		"with prompts of":       func(p *ridge.Params) { p.Embeddings = []float32{1} },
		"the prompt is empty":   func(p *ridge.Params) {},
		"temperature is -1":     func(p *ridge.Params) { p.Sampling.Temperature = -1 },
	} {
		p := ridge.Greedy()
		p.Beams = &ridge.BeamSearch{Width: 2}
		change(&p)
		prompt := []int32{5, 6}
		if strings.HasPrefix(want, "the prompt") {
			prompt = nil
		}
		all, err := m.GenerateMany(t.Context(), prompt, []ridge.Params{p})
		if err == nil {
			for _, e := range all[0] {
				err = cmp.Or(err, e)
			}
		}
		if want == "temperature is -1" { // which does not matter
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, ridge.ErrInvalidRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and should have %q", err, want)
		}
	}
}
