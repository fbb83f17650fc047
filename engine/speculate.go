package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
)

// Speculation is the settings of speculative decoding; see package draft.
type Speculation struct {
	Drafter draft.Drafter // the engine's from New on; nil: answers go on by a token a step
	Tokens  int           // of a draft, at most: 1 to draft.MaxTokens
	// Always has as many tokens drafted as there may be, whatever they are worth.
	Always bool
	// Failed is told that the drafter failed and is not asked any more; answers go on. May be nil.
	Failed func(error)
}

// worth is by how much drafts must raise the rate at which tokens come, as it is estimated, to be verified at all.
const worth = 0.02

// behind is the most known tokens that a request may have to compute for a draft to be added to them.
const behind = 8

// speculation is the drafts of steps.
type speculation struct {
	Speculation
	acceptance draft.Acceptance // of all requests
	requests   []*request       // that may get a draft in the step being launched
	candidates []draft.Candidate
	chooser    sample.Sampler
	computed   []draft.Computed // by a step
	forced     []*request       // whose drafts are given, likewise
	gain       float64          // of the drafts planned last; see draft.Plan
	sequences  []draft.Sequence
	quiet      int // steps since one had a draft
	unplanned  int // steps since one was planned to have one
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
	return nil
}

// propose has the drafter propose drafts for the requests that the schedule moves to their last known token, as many tokens as are worth it. Nothing is
// drafted for a step that is launched ahead: what a draft goes on from is not known.
func (e *Engine) propose(current *InFlight) {
	s := &e.speculation
	if s.Drafter == nil || current != nil || len(e.isolated.requests) > 0 {
		s.quiet++
		return
	}
	s.gain = 0
	e.findCandidates()
	s.sequences = s.sequences[:0]
	e.proposeForced()
	if len(s.candidates)+len(s.forced) == 0 {
		if len(s.computed) == 0 { // steps of prompts leave hidden states to go on from
			s.quiet++
		}
		e.follow()
		return
	}
	if s.quiet++; len(s.candidates) == 0 {
		return
	}
	e.planDrafts()
	for i, r := range s.requests {
		if n := s.candidates[i].Tokens; n > 0 {
			s.sequences = append(s.sequences, draft.Sequence{ID: r.sched.ID, Salt: r.Salt, Tokens: r.tokens, Max: n, Choose: r.choose})
		} else {
			r.acceptance.Wait()
		}
	}
	if len(s.sequences) == 0 {
		s.acceptance.Wait()
		e.follow()
		return
	}
	if err := s.ask(); err != nil {
		e.stopDrafting(err)
		return
	}
	spare := e.sparePages()
	for i := range s.sequences {
		q := &s.sequences[i]
		r := e.queue.byID[q.ID]
		r.draft = q.Draft
		e.fitDraft(r, &spare, q.Max)
	}
}

// ask is Propose; a panic is an error.
func (s *speculation) ask() (err error) {
	defer catch(&err)
	return s.Drafter.Propose(s.sequences)
}

// choose is draft.Sequence.Choose. A grammar's mask is left out: what it does not allow is cut from the draft.
func (s *speculation) choose(r *request, logits []float32, drafted []int32) int32 {
	if r.Forced != nil {
		return r.forcedToken(len(drafted))
	}
	choice, err := s.chooser.Sample(logits, r.sampling.After(drafted), nil)
	if err != nil {
		return -1
	}
	return choice.Token
}

// stopDrafting goes on without a drafter that failed.
func (e *Engine) stopDrafting(err error) {
	s := &e.speculation
	err = errors.Join(err, s.Drafter.Close())
	if s.Failed != nil {
		s.Failed(fmt.Errorf("engine: drafting by %s failed and is switched off; answers go on without: %w", s.Drafter.Name(), err))
	}
	s.Drafter, e.meter.stats.DraftMethod = nil, ""
	e.recorder.DraftingStopped()
}

// sparePages is the pages that are left when the schedule has all that it was promised: a draft takes none of another request's.
func (e *Engine) sparePages() (spare kv.Pages) {
	spare = e.pages.Available()
	for _, c := range e.queue.schedule.Chunks {
		r := e.queue.byID[c.Request.ID]
		need := e.pages.Need(&r.seq, c.Tokens)
		if c.Admit {
			for g := range e.pages.recurrent {
				if need[g] = 1; !e.pages.recurrent[g] {
					need[g] = e.pages.PagesFor(r.sched.Target) // at most
				}
			}
		}
		for g := range spare {
			spare[g] -= need[g]
		}
	}
	return spare
}

// fitDraft cuts a request's draft to what it may have: most tokens, ids of the vocabulary, what its grammar allows, and the spare pages.
func (e *Engine) fitDraft(r *request, spare *kv.Pages, most int) {
	d := &r.draft
	d.Cut(most)
	for i, id := range d.Tokens {
		if id < 0 || int(id) >= e.ids || slices.Contains(r.Ends, id) { // nothing comes after an end
			d.Cut(i)
			break
		}
	}
	if e.pages.hasStates() { // which go on by a token at a time
		n := 0
		for n < len(d.Tokens) && d.Parent(n) == n-1 {
			n++
		}
		d.Cut(n)
	}
	r.cutByGrammar()
	chunk := r.sched.Target - r.sched.Computed
	before := e.pages.Need(&r.seq, chunk)
	for n := len(d.Tokens); n > 0; n = len(d.Tokens) {
		more := e.pages.Need(&r.seq, chunk+n)
		for g := range e.pages.recurrent {
			if more[g] -= before[g]; e.pages.hasStates() {
				more[g]++ // what the step writes to is copied before
			}
		}
		if more.Fits(*spare) {
			for g := range more {
				spare[g] -= more[g]
			}
			return
		}
		d.Cut(n / 2)
	}
}

// cutByGrammar cuts a draft where the grammar does not allow what it says. Of a tree, the first branch is what is looked at.
func (r *request) cutByGrammar() {
	d := &r.draft
	if r.Grammar == nil || len(d.Tokens) == 0 {
		return
	}
	r.Grammar.Keep(len(d.Tokens) + 1)
	n := 0
	for n < len(d.Tokens) && d.Parent(n) == n-1 && r.Grammar.Accept(d.Tokens[n]) == nil {
		n++
	}
	d.Cut(n)
	if err := r.Grammar.Rollback(n); err != nil {
		r.maskErr = err
		d.Cut(0)
	}
}

// takeDraft is a request's pages for its next n tokens and its draft behind them; with recurrent layers the request keeps what it had before. Without pages for both it gets those for the tokens.
func (e *Engine) takeDraft(r *request, n int) bool {
	if k := len(r.draft.Tokens); k > 0 {
		if e.pages.hasStates() {
			e.pages.Fork(&r.before, &r.seq)
		}
		if e.pages.take(r, n+k) {
			return true
		}
		e.pages.Free(&r.before)
		r.draft = draft.Draft{}
	}
	return e.pages.take(r, n)
}

// engaged is for how many steps after one with drafts steps are not launched ahead, and probe how often one is not in any case: of a token in
// flight nothing can be drafted.
const engaged, probe = 8, 16

// wantsDrafts reports whether the next step should wait for the tokens of the one in flight, so that drafts can go on from them.
func (e *Engine) wantsDrafts() bool {
	s := &e.speculation
	return s.Drafter != nil && (s.Always || s.quiet < engaged || s.quiet%probe == 0)
}

// drafted reports whether the step verifies drafts.
func (f *InFlight) drafted() bool {
	return slices.ContainsFunc(f.requests, func(a advance) bool { return a.drafted > 0 })
}

// next is the row of a draft that comes after row when the token there is id, both counted from the row before the draft; false: there is none.
func (o *output) next(row int, id int32) (int, bool) {
	if o.rows <= 1 {
		return 0, false
	}
	at := o.request.draft.Child(row-1, id)
	return at + 1, at >= 0
}

// settleDraft notes what of a draft was accepted and, if the request goes on, takes back the cache rows of what was not. Rows of a tree stay as far
// as the accepted ones lie one behind the other; the tokens after them are computed again.
func (e *Engine) settleDraft(o *output) {
	r, stats := o.request, &e.meter.stats
	e.speculation.quiet = 0
	stats.Drafts++
	stats.DraftTokens += int64(o.rows - 1)
	stats.AcceptedTokens += int64(o.accepted)
	r.drafted, r.accepted = r.drafted+o.rows-1, r.accepted+o.accepted
	for i := range o.accepted {
		stats.AcceptedAt[i]++
	}
	if e.speculation.acceptance.Trees {
		r.acceptance.ObserveTree(o.path[:o.rows-1])
	} else {
		r.acceptance.Observe(r.draft.Depth(), o.accepted)
	}
	computed := min(o.position+o.inOrder, len(r.tokens)-1)
	r.draft = draft.Draft{}
	if o.reason != "" || o.err != nil {
		return
	}
	e.queue.stale = true
	if e.pages.hasStates() {
		e.pages.settleState(r, computed)
		return
	}
	e.pages.truncate(r, computed)
}
