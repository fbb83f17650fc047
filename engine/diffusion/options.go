package diffusion

import (
	"fmt"
	"math"
)

// Algorithm is how it is measured how sure a model is of a token.
type Algorithm string

// Algorithms. Each is a number of one row of the model's probabilities, as they are before temperature and filters; the larger, the surer.
const (
	Confidence Algorithm = "low_confidence" // the probability of the token: LLaDA's low_confidence, Dream's maskgit_plus
	Margin     Algorithm = "topk_margin"    // by how much the likeliest token is likelier than the second
	Entropy    Algorithm = "entropy"        // the entropy, negative
	Random     Algorithm = "random"         // a random number: as many tokens a step as Options.Steps says, anywhere (LLaDA's random remasking)
	Origin     Algorithm = "origin"         // a random number too, and each token has a chance of its own to be fixed in a step (Dream's default)
)

// MaxCFGScale is the largest scale of guidance. Upstream's examples have up to 4, and numbers that have overflowed would say that it is the model's fault.
const MaxCFGScale = 1000

// MaxBlock is the most tokens of a block.
const MaxBlock = 1024

// DefaultBlock is how many tokens a block has where neither the request nor the model says.
const DefaultBlock = 32

// Options are how one answer is found. The zero value is a good choice.
type Options struct {
	// Steps is in how many steps all of the longest answer is found, which divides them among its blocks; 0: as many as it has tokens. A step fixes
	// one token of a block at least.
	Steps int
	// Block is the tokens of a block; 0: as many as the model was made for, or DefaultBlock.
	Block int
	// Threshold has a step fix all the tokens that the model is as sure of as that, and at least the one that it is surest of, in place of a number by
	// Steps; 0 to 1, 0: by Steps. It is of Confidence and Margin.
	Threshold float64
	// Algorithm says which tokens come first; "": Confidence.
	Algorithm Algorithm
	// AlgTemp makes the order of tokens random: those of a step are drawn one after the other, each with a probability in proportion to the exponential of how
	// sure the model is of it, divided by this (Dream's alg_temp). 0: the surest come first.
	AlgTemp float64
	// CFGScale is that of classifier-free guidance: logits are u + (CFGScale + 1) (c - u), where u is what the model gives where all of the prompt is masked
	// (LLaDA's cfg_scale). Every step is two then, and what is kept in the cache twice as much. 0: there is none.
	CFGScale float64
	// Exact has every step compute the prompt and the whole of the longest answer again, as the models' own programs do. Without it the prompt and
	// finished blocks are computed once, and nothing of the blocks after the current one.
	Exact bool
}

// Check refuses settings that mean nothing.
func (o *Options) Check() error {
	random := o.Algorithm == Random || o.Algorithm == Origin
	switch o.Algorithm {
	case "", Confidence, Margin:
	case Random, Origin:
		if o.Threshold > 0 {
			return fmt.Errorf("the diffusion threshold is %g and the algorithm %s, which asks nobody how sure it is; take %s or %s, or leave the threshold out", o.Threshold, o.Algorithm, Confidence, Margin)
		}
	case Entropy:
		if o.Threshold > 0 {
			return fmt.Errorf("the diffusion threshold is %g and the algorithm entropy, which is no probability; take %s or %s, or leave the threshold out", o.Threshold, Confidence, Margin)
		}
	case "maskgit_plus":
	default:
		return fmt.Errorf("the diffusion algorithm is %q; %s (or maskgit_plus), %s, %s, %s and %s are possible", o.Algorithm, Confidence, Margin, Entropy, Random, Origin)
	}
	switch {
	case o.Steps < 0:
		return fmt.Errorf("the diffusion steps are %d; 0 (one for each token) or more is possible", o.Steps)
	case o.Block < 0 || o.Block > MaxBlock:
		return fmt.Errorf("the diffusion block length is %d; 0 (the model's) to %d is possible", o.Block, MaxBlock)
	case !(o.AlgTemp >= 0) || math.IsInf(o.AlgTemp, 1):
		return fmt.Errorf("the temperature of the diffusion algorithm (alg_temp) is %g; 0 (the surest tokens come first) or more is possible", o.AlgTemp)
	case o.AlgTemp > 0 && (random || o.Threshold > 0):
		return fmt.Errorf("the temperature of the diffusion algorithm (alg_temp) is %g, and what it would make random is so already, or is decided by the threshold; leave one of both out", o.AlgTemp)
	case !(o.CFGScale >= 0 && o.CFGScale <= MaxCFGScale):
		return fmt.Errorf("the scale of guidance (cfg_scale) is %g; 0 (none) to %d is possible", o.CFGScale, MaxCFGScale)
	case !(o.Threshold >= 0 && o.Threshold <= 1):
		return fmt.Errorf("the diffusion threshold is %g; 0 (none) to 1 is possible", o.Threshold)
	}
	return nil
}
