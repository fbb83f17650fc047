package ridge

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
)

// BeamSearch has the likeliest answers be searched for in place of sampled: of all continuations of the Width likeliest beginnings by one token the Width likeliest go on, step by step. An answer's score is the sum of
// its tokens' log-probabilities divided by the power LengthPenalty of how many tokens it and its prompt have (as vLLM counts); answers that have ended compete with those that go on.
type BeamSearch struct {
	Width         int     // beginnings that go on: 1 to MaxBeams
	LengthPenalty float64 // 0: sums are compared as they are; 1, vLLM's default: means; more favours long answers
	Early         bool    // the search ends with the first Width ends, although beginnings that go on may come to a higher score
}

// MaxBeams is the largest Width: the 2 × Width likeliest tokens of each beginning are looked at, of which half may be ends.
const MaxBeams = sample.MaxTopLogprobs / 2

// beam is a beginning of an answer, or all of it.
type beam struct {
	tokens []Sampled
	sum    float64  // of log-probabilities, an end's included
	end    *Sampled // that ended it; nil: it goes on, or is as long as it may be
	score  float64
}

// check refuses what has no meaning where answers are searched for.
func (b *BeamSearch) check(m *Model, all []Params) error {
	p := &all[0]
	wrong := ""
	switch s := p.Sampling; {
	case b.Width < 1 || b.Width > MaxBeams:
		return invalidRequest(fmt.Sprintf("beam_width is %d; 1 to %d is possible", b.Width, MaxBeams))
	case len(all) > b.Width:
		return invalidRequest(fmt.Sprintf("n is %d, and beam_width %d: beam search has as many answers as it is wide; ask for fewer, or for a wider search", len(all), b.Width))
	case math.IsNaN(b.LengthPenalty) || math.Abs(b.LengthPenalty) > 100:
		return invalidRequest(fmt.Sprintf("length_penalty is %g; -100 to 100 is possible", b.LengthPenalty))
	case m.FillsIn():
		wrong = "a model that fills masked tokens in"
	case len(p.Stop) > 0:
		wrong = "stop"
	case p.MinTokens > 0:
		wrong = "min_tokens"
	case p.Constraint != nil:
		wrong = "a format, grammar or tool choice that answers must be in"
	case p.Embeddings != nil:
		wrong = "prompts of embeddings"
	case p.PromptLogprobs || p.NoAnswer:
		wrong = "echo, prompt_logprobs or max_tokens 0"
	case p.Remote != nil:
		wrong = "kv_transfer_params"
	case s.PresencePenalty != 0 || s.FrequencyPenalty != 0 || s.RepetitionPenalty != 0 && s.RepetitionPenalty != 1 || len(s.LogitBias) > 0 || len(s.Allowed) > 0 || s.Chained() != "":
		wrong = "penalties, logit_bias, allowed_token_ids or llama.cpp's samplers"
	default:
		return nil
	}
	return invalidRequest(fmt.Sprintf("use_beam_search does not go with %s: it compares answers by the model's own probabilities; leave one out", wrong))
}

// beams searches the answers of GenerateMany.
func (m *Model) beams(ctx context.Context, prompt []int32, all []Params) ([]iter.Seq2[Piece, error], error) {
	if err := all[0].Beams.check(m, all); err != nil {
		return nil, err
	}
	if _, _, err := m.prepare(prompt, all[0]); err != nil {
		return nil, err
	}
	s := &search{m: m, prompt: prompt, p: all[0], began: time.Now()}
	// Whoever reads an answer first searches: what fails there is the reader's, and nothing runs for answers that nobody reads.
	search := sync.OnceValues(func() ([]beam, error) { return s.run(ctx) })
	var answers []iter.Seq2[Piece, error]
	for i := range all {
		answers = append(answers, func(yield func(Piece, error) bool) {
			found, err := search()
			if err != nil {
				yield(Piece{}, err)
				return
			}
			s.pieces(&found[i], yield)
		})
	}
	return answers, nil
}

// search is a beam search under way.
type search struct {
	m      *Model
	prompt []int32
	p      Params
	began  time.Time
	first  time.Time // token was there
	finish *Finish   // of the prompt's request
}

// run finds the answers, the best first: as many as the search is wide.
func (s *search) run(ctx context.Context) ([]beam, error) {
	b, room := s.p.Beams, s.m.room(s.prompt, s.p)
	var ended []beam
	live := []beam{{}}
	for n := range room {
		next, err := s.next(ctx, live)
		if err != nil {
			return nil, err
		}
		var on []beam
		for i := range live {
			for _, t := range next[i] {
				token := Sampled{Token: t.Token, Logprob: t.Logprob, Top: next[i]}
				x := beam{tokens: append(slices.Clone(live[i].tokens), token), sum: live[i].sum + float64(t.Logprob)}
				if s.ends(t.Token) {
					x.tokens, x.end = live[i].tokens, &token
				}
				if x.score = s.score(x.sum, len(x.tokens)); x.end != nil {
					ended = append(ended, x)
				} else {
					on = append(on, x)
				}
			}
		}
		best(on)
		live = on[:min(len(on), b.Width)]
		best(ended)
		ended = ended[:min(len(ended), b.Width)]
		if len(ended) == b.Width && (b.Early || len(live) == 0 || ended[b.Width-1].score >= s.bound(live, n+1, room)) {
			return ended, nil
		}
	}
	all := append(ended, live...)
	best(all)
	return all[:min(len(all), b.Width)], nil
}

// best sorts beams by score; those that were there first stay first among equals.
func best(all []beam) {
	slices.SortStableFunc(all, func(a, b beam) int { return cmp.Compare(b.score, a.score) })
}

// ends reports whether a token ends an answer.
func (s *search) ends(token int32) bool {
	return !s.p.IgnoreEnd && slices.Contains(s.m.ends, token) || slices.Contains(s.p.StopIDs, token)
}

// score is that of an answer of so many tokens.
func (s *search) score(sum float64, tokens int) float64 {
	return sum / math.Pow(float64(len(s.prompt)+tokens), s.p.Beams.LengthPenalty)
}

// bound is the most that an answer that begins with a beam may come to: sums of log-probabilities become no larger.
func (s *search) bound(live []beam, tokens, room int) float64 {
	most := math.Inf(-1)
	for _, x := range live {
		most = max(most, s.score(x.sum, tokens), s.score(x.sum, room))
	}
	return most
}

// next is the likeliest tokens after each beam, in one step of the engine where there is room: their prompts begin alike, and whole pages of that are in its cache.
func (s *search) next(ctx context.Context, live []beam) ([][]sample.Logprob, error) {
	one := s.p
	one.Beams, one.MaxTokens, one.IgnoreEnd, one.StopIDs, one.Special = nil, 1, true, nil, true
	one.Sampling = Greedy().Sampling
	one.Sampling.Logprobs, one.Sampling.TopLogprobs = true, min(2*s.p.Beams.Width, s.m.Vocab())
	var answers []*answer
	var requests []engine.Request
	for i := range live {
		ids := slices.Clone(s.prompt)
		for _, t := range live[i].tokens {
			ids = append(ids, t.Token)
		}
		a, r, err := s.m.prepare(ids, one)
		if err != nil {
			return nil, err
		}
		answers, requests = append(answers, a), append(requests, r)
	}
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.m.engine.Together(func() {
		for _, r := range requests {
			failed = cmp.Or(failed, s.m.submit(ctx, r))
		}
	})
	if failed != nil {
		return nil, failed
	}
	all := make([][]sample.Logprob, len(live))
	for i, a := range answers {
		for p, err := range a.pieces {
			if err != nil {
				return nil, err
			}
			if p.Token != nil {
				all[i] = p.Token.Top
			}
			if p.Finish != nil && s.finish == nil {
				s.finish, s.first = p.Finish, time.Now()
			}
		}
	}
	return all, nil
}

// pieces yields an answer.
func (s *search) pieces(b *beam, yield func(Piece, error) bool) {
	stream := s.m.tokenizer.NewStream(!s.p.Special)
	for i := range b.tokens {
		if !yield(Piece{Text: stream.Push(b.tokens[i].Token), Token: &b.tokens[i]}, nil) {
			return
		}
	}
	text := ""
	f := *s.finish
	f.Reason, f.Output, f.Wall = FinishLength, len(b.tokens), time.Since(s.began)
	f.Prefill, f.Decode = s.first.Sub(s.began), max(f.Wall-s.first.Sub(s.began), 0)
	if b.end != nil {
		if f.Reason, f.End = FinishStop, b.end; s.p.IncludeStop {
			text = stream.Push(b.end.Token)
		}
	}
	yield(Piece{Text: text + stream.Flush(), Finish: &f}, nil)
}
