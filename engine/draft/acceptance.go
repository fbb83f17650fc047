package draft

import "math"

// Acceptance estimates how likely the tokens of a draft are to be accepted, by their place in it, from what became of drafts of late. One of a
// sequence begins with what its drafter's is.
type Acceptance struct {
	Of              *Acceptance // of all sequences; nil: it is that
	Trees           bool        // drafts are trees, whose tokens are counted each for itself, by their order
	Whole           int         // and which of so many tokens are verified as they are or not at all: all tokens count alike; 0: not so
	tried, accepted [MaxTokens]float64
}

const (
	firstGuess    = 0.6  // before anything is known
	wholeGuess    = 1.0  // tokens of a draft that is verified as it is or not at all
	guessWeight   = 2.0  // drafts that the guess counts for
	ofAllWeight   = 4.0  // drafts that the estimate of all sequences counts for in that of one
	forgetOne     = 0.97 // weight of what was known, at each draft, and each step without
	forgetAll     = 0.998
	forgetWaiting = 0.995 // of an estimate that keeps a sequence from being drafted for, so that it is tried again in time
	forgotten     = 1e-6  // what was known counts for nothing
)

// At is the probability that token i of a draft is accepted; of a chain, if those before it are.
func (a *Acceptance) At(i int) float64 {
	guess, weight := firstGuess, 1.0
	if a.Whole > 0 {
		i, guess, weight = 0, wholeGuess/float64(a.Whole), float64(a.Whole)
	}
	if a.Of == nil {
		if a.Trees && a.Whole == 0 {
			guess /= 1 + float64(i)/2
		}
		return (a.accepted[i] + guessWeight*weight*guess) / (a.tried[i] + guessWeight*weight)
	}
	return (a.accepted[i] + ofAllWeight*weight*a.Of.At(i)) / (a.tried[i] + ofAllWeight*weight)
}

// Expected is how many of a draft's first n tokens are expected to be accepted.
func (a *Acceptance) Expected(n int) (tokens float64) {
	chance := 1.0
	for i := range min(n, MaxTokens) {
		chance = a.chance(chance, i)
		tokens += chance
	}
	return tokens
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
	accepted = accepted[:min(len(accepted), MaxTokens)]
	if a.Whole > 0 {
		a.tried[0], a.accepted[0] = a.tried[0]*keep+float64(a.Whole), a.accepted[0]*keep
	}
	for i, yes := range accepted {
		if a.Whole > 0 {
			i = 0
		} else {
			a.tried[i], a.accepted[i] = a.tried[i]*keep+1, a.accepted[i]*keep
		}
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

// Wait notes steps in which the estimate let nothing be drafted.
func (a *Acceptance) Wait(steps int) {
	keep := forgetWaiting
	if steps != 1 {
		keep = math.Pow(forgetWaiting, float64(steps))
	}
	for i := range a.tried {
		if a.tried[i] *= keep; a.tried[i] < forgotten { // and so nothing is known of those after it, which are tried more rarely
			clear(a.tried[i:])
			clear(a.accepted[i:])
			return
		}
		a.accepted[i] *= keep
	}
}
