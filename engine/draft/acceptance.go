package draft

// Acceptance estimates how likely the tokens of a draft are to be accepted, by their place in it, from what became of drafts of late. One of a
// sequence begins with what its drafter's is.
type Acceptance struct {
	Of              *Acceptance // of all sequences; nil: it is that
	Trees           bool        // drafts are trees, whose tokens are counted each for itself, by their order
	tried, accepted [MaxTokens]float64
}

const (
	firstGuess    = 0.6  // before anything is known
	guessWeight   = 2.0  // drafts that the guess counts for
	ofAllWeight   = 4.0  // drafts that the estimate of all sequences counts for in that of one
	forgetOne     = 0.97 // weight of what was known, at each draft, and each step without
	forgetAll     = 0.998
	forgetWaiting = 0.995 // of an estimate that keeps a sequence from being drafted for, so that it is tried again in time
)

// At is the probability that token i of a draft is accepted; of a chain, if those before it are.
func (a *Acceptance) At(i int) float64 {
	if a.Of == nil {
		guess := firstGuess
		if a.Trees {
			guess /= 1 + float64(i)/2
		}
		return (a.accepted[i] + guessWeight*guess) / (a.tried[i] + guessWeight)
	}
	return (a.accepted[i] + ofAllWeight*a.Of.At(i)) / (a.tried[i] + ofAllWeight)
}

// Observe notes a draft of so many tokens, of which the first were accepted.
func (a *Acceptance) Observe(drafted, accepted int) {
	keep := forgetOne
	if a.Of == nil {
		keep = forgetAll
	}
	for i := range min(drafted, accepted+1) {
		a.tried[i], a.accepted[i] = a.tried[i]*keep+1, a.accepted[i]*keep
		if i < accepted {
			a.accepted[i]++
		}
	}
	if a.Of != nil {
		a.Of.Observe(drafted, accepted)
	}
}

// ObserveTree notes a tree of which these tokens were accepted.
func (a *Acceptance) ObserveTree(accepted []bool) {
	keep := forgetOne
	if a.Of == nil {
		keep = forgetAll
	}
	for i, yes := range accepted[:min(len(accepted), MaxTokens)] {
		a.tried[i], a.accepted[i] = a.tried[i]*keep+1, a.accepted[i]*keep
		if yes {
			a.accepted[i]++
		}
	}
	if a.Of != nil {
		a.Of.ObserveTree(accepted)
	}
}

// chance is the probability that token i is accepted, where it is so for the one before it.
func (a *Acceptance) chance(before float64, i int) float64 {
	if a.Trees {
		return min(before, a.At(i))
	}
	return before * a.At(i)
}

// Wait notes a step in which the estimate let nothing be drafted.
func (a *Acceptance) Wait() {
	for i := range a.tried {
		a.tried[i] *= forgetWaiting
		a.accepted[i] *= forgetWaiting
	}
}
