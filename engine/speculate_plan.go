package engine

import (
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// findCandidates lists the requests for which the step may verify a draft.
func (s *speculation) findCandidates() {
	s.requests, s.candidates, s.forced = s.requests[:0], s.candidates[:0], s.forced[:0]
	for _, c := range s.queue.schedule.Chunks {
		r := s.queue.byID[c.Request.ID]
		r.draft = draft.Draft{}
		if c.Admit || !c.Logits || c.Tokens > behind || r.output == 0 || r.pending > 0 || len(r.siblings) > 0 || r.Embeddings != nil || r.Hidden != nil {
			continue
		}
		most := min(s.Tokens, r.sched.Limit-len(r.tokens)-1)
		if most < 1 {
			continue
		}
		if r.acceptance == nil {
			r.acceptance = &draft.Acceptance{Of: &s.acceptance, Trees: s.acceptance.Trees}
			r.choose = func(logits []float32, drafted []int32) int32 { return s.choose(r, logits, drafted) }
		}
		if r.ForcedDrafts != nil {
			s.forced = append(s.forced, r)
			continue
		}
		s.requests = append(s.requests, r)
		s.candidates = append(s.candidates, draft.Candidate{Acceptance: r.acceptance, Max: most, Context: len(r.tokens)})
	}
}

// plan says how many tokens to draft for each candidate.
func (s *speculation) plan() {
	shape := s.queue.schedule.Shape
	outputs := 0
	for _, c := range s.queue.schedule.Chunks {
		if c.Logits {
			outputs++
		}
	}
	room := min(s.limits.stepTokens-shape.Tokens, s.limits.logits-outputs)
	if s.Always {
		for i := range s.candidates {
			c := &s.candidates[i]
			c.Tokens = min(c.Max, room/len(s.candidates))
		}
		return
	}
	s.gain = draft.Plan(s.candidates, outputs, room, worth, func(x draft.Extra) float64 {
		seconds := s.times.Estimate(sched.Shape{Tokens: shape.Tokens + x.Tokens, Logits: shape.Logits + x.Tokens, Drafts: x.Tokens, Rows: shape.Rows + x.Tokens, Pairs: shape.Pairs + x.Pairs})
		if x.Tokens > 0 && seconds > 0 {
			seconds += s.Drafter.Seconds(x.Seqs, x.Longest)
		}
		return seconds
	})
	s.tryAgain(outputs, room)
}

// Where drafts have not been worth it for tryAfter steps, one step tries a few: what they take, and what becomes of them, may have changed.
const tryAfter, tryTokens = 64, 3

// tryAgain has some tokens drafted after many steps without, a quarter of those that the step brings or tryTokens.
func (s *speculation) tryAgain(outputs, room int) {
	for i := range s.candidates {
		if s.candidates[i].Tokens > 0 {
			s.unplanned = 0
			return
		}
	}
	if s.unplanned++; s.unplanned < tryAfter {
		return
	}
	s.unplanned = 0
	left := min(max(outputs/4, tryTokens), room)
	for i := range s.candidates {
		c := &s.candidates[i]
		c.Tokens = min(c.Max, tryTokens, left)
		left -= c.Tokens
	}
}
