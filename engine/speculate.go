package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/predict"
	"github.com/ridge-llm/ridge/engine/sample"
)

// Speculation is the settings of speculative decoding; see package draft.
type Speculation struct {
	Drafter draft.Drafter // the engine's from New on; nil: answers go on by a token a step
	// Beside are drafters that look drafts up, and are asked for every request, whose drafts are those of the one that brings most tokens a second.
	Beside []draft.Drafter
	Tokens int // of a draft, at most: 1 to draft.MaxTokens
	// Always has as many tokens drafted as there may be, whatever they are worth.
	Always bool
	// Failed is told that the drafter failed and is not asked any more; answers go on. May be nil.
	Failed func(error)
}

// worth is by how much drafts must raise the rate at which tokens come, as it is estimated, to be verified at all.
const worth = 0.02

// behind is the most known tokens that a request may have to compute for a draft to be added to them.
const behind = 8

// speculation has drafts proposed for steps and settles what became of them.
type speculation struct {
	Speculation
	name     string // the drafter's
	method   string // with those beside it
	queue    *queue // whose requests they are
	pages    *pages // that they take
	times    *predict.Times
	recorder Recorder
	clock    clock
	limits   draftLimits
	counts   draftCounts

	plan      draftPlan
	waits     waits
	sequences []draft.Sequence
	besides   []*beside
	offered   []draft.Sequence  // to drafters beside
	mains     []draft.Candidate // used again
	lent      []kv.Seq          // room in the cache for them, where the drafter computes there
	spare     kv.Pages          // that are left for drafts
	chooser   sample.Sampler
	computed  []draft.Computed // by a step
	quiet     int              // steps since one had a draft
	took      time.Duration    // drafting for the step launched last
}

// draftLimits are what drafts have to fit in.
type draftLimits struct {
	ids        int // that tokens may have
	stepTokens int // of a step, at most
	logits     int // rows of a step, at most
}

func newSpeculation(o Speculation, l *loop, stepTokens int) speculation {
	s := speculation{Speculation: o, queue: &l.queue, pages: &l.pages, times: l.meter.times, recorder: l.recorder, clock: l.meter.clock}
	s.limits = draftLimits{ids: l.ids, stepTokens: stepTokens, logits: l.prog.Limits().Logits}
	if o.Drafter != nil {
		s.name = o.Drafter.Name()
		s.addBesides()
	}
	if d, branches := o.Drafter.(draft.Branching); branches {
		s.plan.acceptance.Trees = d.Trees()
	}
	if d, ok := o.Drafter.(draft.Concurrent); ok {
		s.plan.lookedUp = d.Concurrent()
	}
	if _, whole := o.Drafter.(draft.Observer); whole {
		s.plan.acceptance.Whole, s.plan.lookedUp = o.Tokens, false
	}
	return s
}

func (s *Speculation) check(lim backend.Limits) error {
	switch {
	case s.Drafter == nil:
		return nil
	case s.Tokens < 1 || s.Tokens > draft.MaxTokens:
		return fmt.Errorf("engine: drafts of %d tokens (num_speculative_tokens); 1 to %d are possible", s.Tokens, draft.MaxTokens)
	case lim.Logits <= lim.Seqs:
		return fmt.Errorf("engine: drafts need logits of more rows than sequences; the program was compiled for %d of both", lim.Logits)
	}
	return s.checkBesides()
}

// close ends the drafters.
func (s *speculation) close() {
	s.all(func(d draft.Drafter) { d.Close() })
}

// forget tells the drafter that a request has ended.
func (s *speculation) forget(r *request) {
	if r.Hidden == nil {
		s.all(func(d draft.Drafter) { d.Forget(r.sched.ID, r.tokens) })
	}
}

// propose has the drafter propose drafts for the requests that the schedule moves to their last known token, as many tokens as are worth it. ahead says that
// a step is in flight: then nothing is drafted for requests that have a token in it, nor for any if the drafter needs the device.
func (s *speculation) propose(ahead bool) {
	if s.took = 0; s.Drafter == nil || ahead && !s.concurrent() {
		s.quiet++
		return
	}
	p := &s.plan
	p.find(s.queue, s.Tokens, false)
	if ahead || len(p.candidates)+len(p.forced) > 0 || len(s.computed) == 0 { // steps of prompts leave hidden states to go on from
		s.quiet++
	}
	s.proposeForced()
	s.askBesides()
	s.choose()
	s.spare = s.sparePages()
	defer s.fitOffers()
	if len(s.sequences) == 0 {
		if !ahead && len(p.forced) == 0 {
			s.follow()
		}
		return
	}
	if err := s.lend(); err != nil {
		s.stop(err)
		return
	}
	err := s.ask()
	s.takeBack()
	if err != nil {
		s.stop(err)
		return
	}
	p.silent++
	for i := range s.sequences {
		q := &s.sequences[i]
		r := s.queue.byID[q.ID]
		if r.silent++; len(q.Draft.Tokens) > 0 {
			r.silent, p.silent = 0, 0
		}
		r.draft, r.draftedBy = q.Draft, byMain
		s.fit(r, &s.spare, q.Max)
	}
}

// choose makes sequences of the candidates for which drafts are worth it, of no more tokens than there are pages that nothing else of the step needs.
func (s *speculation) choose() {
	p := &s.plan
	s.sequences = s.sequences[:0]
	if len(p.candidates) == 0 {
		return
	}
	p.launched(s.planDrafts(false))
	p.forget()
	s.forgetOffers()
	s.spare = s.sparePages()
	for i, r := range p.requests {
		if r.choose == nil {
			r.choose = func(logits []float32, drafted []int32) int32 { return s.token(r, logits, drafted) }
		}
		c := &p.candidates[i]
		c.Tokens = s.reserve(r, &s.spare, c.Tokens)
		if n := c.Tokens; n > 0 && !c.Free {
			s.sequences = append(s.sequences, draft.Sequence{ID: r.sched.ID, Salt: r.Salt, Tokens: r.tokens, Max: n, Choose: r.choose})
		}
	}
}

// fitOffers gives requests the drafts that were offered to them and are worth it.
func (s *speculation) fitOffers() {
	if len(s.besides) == 0 || s.Drafter == nil {
		return
	}
	for i, r := range s.plan.requests {
		if c := &s.plan.candidates[i]; c.Free && c.Tokens > 0 {
			r.draft, r.draftedBy = draft.Draft{Tokens: r.offer.tokens[:min(c.Tokens, len(r.offer.tokens))]}, r.offer.by
			r.silent, s.plan.silent = 0, 0
			s.fit(r, &s.spare, c.Tokens)
		}
	}
}

// ask is Propose; a panic is an error.
func (s *speculation) ask() (err error) {
	defer catch(&err)
	began := s.clock.now()
	defer func() { s.took = s.clock.now().Sub(began) }()
	return s.Drafter.Propose(s.sequences)
}

// token is draft.Sequence.Choose. A grammar's mask is left out: what it does not allow is cut from the draft.
func (s *speculation) token(r *request, logits []float32, drafted []int32) int32 {
	if r.Forced != nil {
		return r.forcedToken(len(drafted))
	}
	choice, err := s.chooser.Sample(logits, r.sampling.After(drafted), nil)
	if err != nil {
		return -1
	}
	return choice.Token
}

// stop goes on without a drafter that failed.
func (s *speculation) stop(err error) {
	s.all(func(d draft.Drafter) { err = errors.Join(err, d.Close()) })
	if s.Failed != nil {
		s.Failed(fmt.Errorf("engine: drafting by %s failed and is switched off; answers go on without: %w", s.name, err))
	}
	s.Drafter = nil
	s.recorder.DraftingStopped()
}
