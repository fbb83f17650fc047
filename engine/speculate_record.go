package engine

import "github.com/ridge-llm/ridge/engine/draft"

// noteDraft takes note of the draft that the step verifies for a request, if there is one.
func (e *Engine) noteDraft(f *InFlight, r *request) {
	d := &r.draft
	if len(d.Tokens) == 0 {
		return
	}
	e.recorder.Drafted(r.sched.ID, *d)
	x := &f.drafts
	x.Drafter, x.ExpectedGain = e.speculation.Drafter.Name(), e.speculation.gain
	x.Drafts++
	x.DraftTokens += len(d.Tokens)
	if x.LongestDraft = max(x.LongestDraft, d.Depth()); !d.Chain() {
		x.DraftTrees++
	}
}

// proposeForced gives requests whose drafts are known theirs.
func (e *Engine) proposeForced() {
	if len(e.speculation.forced) == 0 {
		return
	}
	spare := e.sparePages()
	for _, r := range e.speculation.forced {
		d := r.ForcedDrafts[len(r.tokens)]
		r.draft = draft.Draft{Tokens: d.Tokens, Parents: d.Parents} // which fitDraft may cut
		e.fitDraft(r, &spare, len(d.Tokens))
	}
}
