package engine

import (
	"runtime/debug"

	"github.com/ridge-llm/ridge/engine/draft"
)

// pruneByGrammar drops what the grammar does not allow from a draft, with what comes after it, and of a tree the places that are there to be learnt from: they are no part of a text.
func (r *request) pruneByGrammar() {
	d := &r.draft
	if r.Grammar == nil || len(d.Tokens) == 0 {
		return
	}
	if !d.Chain() {
		d.Cut(len(d.Tokens) - d.Window)
	}
	allowed, err := r.walkDraft(func(int) error { return nil })
	if err != nil {
		r.maskErr = err
		d.Cut(0)
		return
	}
	d.Keep(allowed[:len(d.Tokens)])
}

// findDraftMasks asks the grammar which tokens may come after each token of the draft, all of which it allows. A mistake in it becomes the request's own.
func (r *request) findDraftMasks(vocab int) {
	defer func() {
		if p := recover(); p != nil {
			r.maskErr = &PanicError{p, debug.Stack()}
		}
	}()
	for len(r.draftMasks) < len(r.draft.Tokens) {
		r.draftMasks = append(r.draftMasks, make([]uint32, (vocab+31)/32))
	}
	_, err := r.walkDraft(func(i int) error { return r.Grammar.Mask(r.draftMasks[i]) })
	if err != nil && r.maskErr == nil {
		r.maskErr = err
	}
}

// walkDraft calls visit with each token of the draft that the grammar allows when it has accepted that token's branch. It says which they are, and
// leaves the grammar as it was.
func (r *request) walkDraft(visit func(i int) error) (allowed [draft.MaxTokens]bool, err error) {
	d := &r.draft
	r.Grammar.Keep(len(d.Tokens) + 1)
	var branch, at [draft.MaxTokens]int // of the token, from its first one on, and what the grammar has accepted
	n := 0
	for i := 0; i < len(d.Tokens) && err == nil; i++ {
		parent, depth := d.Parent(i), 0
		if parent >= 0 && !allowed[parent] {
			continue
		}
		for p := parent; p >= 0; p = d.Parent(p) {
			depth++
		}
		for p, k := parent, depth; p >= 0; p = d.Parent(p) {
			k--
			branch[k] = p
		}
		same := 0
		for same < min(n, depth) && at[same] == branch[same] {
			same++
		}
		if err = r.Grammar.Rollback(n - same); err != nil {
			return allowed, err
		}
		for n = same; n < depth && err == nil; n++ {
			at[n] = branch[n]
			err = r.Grammar.Accept(d.Tokens[branch[n]])
		}
		if err == nil && r.Grammar.Accept(d.Tokens[i]) == nil {
			at[n], allowed[i] = i, true
			n++
			err = visit(i)
		}
	}
	if back := r.Grammar.Rollback(n); err == nil {
		err = back
	}
	return allowed, err
}
