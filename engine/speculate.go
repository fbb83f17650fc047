package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
)

// Speculation is the settings of speculative decoding; see package draft.
type Speculation struct {
	Drafter draft.Drafter // the engine's from New on; nil: answers go on by a token a step
	Beside  []Beside      // further ones
	Tokens  int           // of a draft, at most: 1 to draft.MaxTokens
	// Always has as many tokens drafted as there may be, whatever they are worth.
	Always bool
	// Failed is told that a drafter failed and is not asked any more; answers go on. May be nil.
	Failed func(error)
}

// worth is by how much drafts must raise the rate at which tokens come, as it is estimated, to be verified at all.
const worth = 0.02

// behind is the most known tokens that a request may have to compute for a draft to be added to them.
const behind = 8

// speculation has drafts proposed for steps and settles what became of them.
type speculation struct {
	drafters []*drafter
	method   string // the names of all
	always   bool   // see Speculation
	failed   func(error)
	queue    *queue // whose requests they are
	pages    *pages // that they take
	prices   prices
	recorder Recorder
	clock    clock
	limits   draftLimits
	counts   draftCounts

	plan     draftPlan
	waits    waits
	asked    int        // steps in which drafters were asked freely
	awake    []int      // which of the plan's requests they are asked for
	ways     []option   // of the plan, used again
	paid     int        // of them, those of drafters that have to be paid for; they come first
	compared []uint     // sets of them, used again
	lent     []kv.Seq   // room in the cache for sequences of a drafter that computes there
	spare    []kv.Pages // of each rank, that are left for drafts
	beside   []kv.Pages // likewise, where they are counted apart from those
	chooser  sample.Sampler
	computed []draft.Computed // by a step
	quiet    int              // steps since one had a draft
	took     time.Duration    // drafting for the step launched last
}

// draftLimits are what drafts have to fit in.
type draftLimits struct {
	ids        int // that tokens may have
	stepTokens int // of a step, at most
	logits     int // rows of a step, at most
}

func newSpeculation(o Speculation, l *loop, stepTokens int) speculation {
	s := speculation{always: o.Always, failed: o.Failed, queue: &l.queue, pages: &l.pages, prices: prices{times: l.meter.times}, recorder: l.recorder, clock: l.meter.clock}
	s.limits = draftLimits{ids: l.ids, stepTokens: stepTokens, logits: l.prog.Limits().Logits}
	s.setDrafters(o)
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
	s.working(func(d *drafter) { d.Close() })
}

// forget tells the drafters that a request has ended.
func (s *speculation) forget(r *request) {
	if r.Hidden == nil {
		s.working(func(d *drafter) { d.Forget(r.sched.ID, r.tokens) })
	}
}

// propose has drafts proposed for the requests that the schedule moves to their last known token, as many tokens as are worth it. ahead says that
// a step is in flight: then nothing is drafted for requests that have a token in it, nor for any if a drafter needs the device.
func (s *speculation) propose(ahead bool) {
	if s.took = 0; !s.drafts() || ahead && !s.concurrent() {
		s.hush()
		return
	}
	p := &s.plan
	s.find(false)
	if ahead || len(p.requests)+len(p.forced) > 0 || len(s.computed) == 0 { // steps of prompts leave hidden states to go on from
		s.hush()
	}
	s.proposeForced()
	s.askFreely()
	s.choose()
	for _, d := range s.drafters {
		if d.Drafter == nil || d.offers || len(d.sequences) == 0 && (ahead || len(p.forced) > 0 || !s.follows(d)) {
			continue
		}
		if err := s.proposeBy(d); err != nil {
			s.stop(d, err)
		}
	}
	s.takeOffers()
}

// hush counts a step without drafts, until one is launched.
func (s *speculation) hush() {
	s.quiet++
	for _, d := range s.drafters {
		d.quiet++
	}
}

// choose gives each drafter the sequences for which drafts of its are worth it, of no more tokens than there are pages that nothing else of the step needs.
func (s *speculation) choose() {
	p := &s.plan
	for _, d := range s.drafters {
		d.sequences = d.sequences[:0]
	}
	if len(p.requests) == 0 {
		p.candidates = p.candidates[:0]
		return
	}
	waited := 1 + p.rest.steps
	drafts := s.planDrafts(false)
	p.launched(drafts)
	if p.rest.steps == 0 {
		s.settleEstimates(waited)
	}
	if !drafts {
		return
	}
	s.spare = s.sparePages(s.spare)
	for i, r := range p.requests {
		c := &p.candidates[i]
		if c.Tokens = s.reserve(r, s.spare, c.Tokens); c.Tokens == 0 || c.Free {
			continue
		}
		for k, d := range s.drafters {
			if c.Acceptance == &r.estimates[k] {
				d.ask(s, r, c.Tokens)
			}
		}
	}
	s.spare = s.sparePages(s.spare) // what is fitted takes its pages again
	all, _ := draft.Sum(p.candidates)
	p.drafting = s.seconds(all)
}

// proposeBy has a drafter propose the drafts that it is asked for.
func (s *speculation) proposeBy(d *drafter) error {
	if err := s.lend(d); err != nil {
		return err
	}
	began := s.clock.now()
	err := d.propose()
	s.took += s.clock.now().Sub(began)
	s.takeBack()
	if err != nil || len(d.sequences) == 0 {
		return err
	}
	s.plan.silent++
	by := slices.Index(s.drafters, d)
	for i := range d.sequences {
		q := &d.sequences[i]
		r := s.queue.byID[q.ID]
		if len(q.Draft.Tokens) > 0 {
			r.silent, s.plan.silent = 0, 0
		} else if r.silent++; d.acceptance.Whole == 0 {
			r.estimates[by].Observe(1, 0) // another may have something for the request
		}
		r.draft, r.draftedBy = q.Draft, by
		s.fit(r, s.spare, q.Max)
	}
	return nil
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
