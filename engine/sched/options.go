package sched

import (
	"fmt"
	"math"
)

// Policy is the order in which waiting requests are taken.
type Policy string

const (
	FCFS          Policy = "fcfs"           // first come, first served
	ByPriority    Policy = "priority"       // lowest Priority first, then first come; the highest is preempted first
	LongestPrefix Policy = "longest-prefix" // of the oldest 64, the one with most tokens in the cache
)

// ParsePolicy reads a policy's name; "lpm" (longest prefix match) is what SGLang calls LongestPrefix.
func ParsePolicy(name string) (Policy, error) {
	p := Policy(name)
	if name == "lpm" {
		p = LongestPrefix
	}
	return p, p.check()
}

func (p Policy) check() error {
	switch p {
	case FCFS, ByPriority, LongestPrefix:
		return nil
	}
	return fmt.Errorf("sched: unknown policy %q; there are %q, %q and %q (or \"lpm\")", p, FCFS, ByPriority, LongestPrefix)
}

// Options are a State's settings.
type Options struct {
	Policy Policy

	Pages      int // of the cache, of one rank
	Ranks      int // devices that have sequences of their own; 0: 1
	PageSize   int // tokens in a page
	Watermark  int // pages that admission leaves available, so that the running have room to grow
	MaxContext int // tokens that the model can attend to

	MaxBatchedTokens int  // tokens in a step
	Whole            bool // what a request has left is computed in one step, as rows that see one another need it (encoders, diffusion); MaxContext may be no more than a step
	MaxSeqs          int  // requests running at once
	MaxWaiting       int  // requests waiting at most; more are refused

	// Steps is how many steps are in flight at the same time, each with its part of the running requests and of the prompts' tokens; 0 is 1.
	Steps int

	// AgingBound, for LongestPrefix: a request that has waited longer goes first, in order of arrival. ns
	AgingBound int64

	// WaitingServedRatio, if positive, lets requests wait until there are so many times as many as are running, or
	// until MaxHeldSteps steps have gone by: fewer interruptions of the running by prompts (as in Hugging Face's TGI).
	WaitingServedRatio float64
	MaxHeldSteps       int

	// Price, if set, is the time that a step of that shape takes, µs. With TargetITL (µs; 0 is none) prompts get in
	// a step with running answers only the chunk that still ends in that time; with ITLRatio (0 is none) the chunk with which
	// the step takes no more than so many times as long as steps with the answers alone usually do (Usual, µs), a prompt that takes many
	// steps less (Schedule.limitOf). TargetITL goes before ITLRatio.
	Price     func(Shape) float64
	Usual     func(Shape) float64
	TargetITL float64
	ITLRatio  float64

	// SwapPrice, if set, is what it costs to compute a request's cache rows again, and to swap them out and in, µs.
	// The cheaper is done at preemption. Without it preempted requests are computed again.
	SwapPrice func(*Request) (recompute, swap float64)
}

// Validate returns a sentence naming the first setting that is wrong.
func (o *Options) Validate() error {
	if err := o.Policy.check(); err != nil {
		return err
	}
	for _, count := range []struct {
		name  string
		value int
	}{
		{"the number of pages", o.Pages}, {"the page size", o.PageSize}, {"the context length", o.MaxContext},
		{"the number of running requests", o.MaxSeqs}, {"the length of the queue", o.MaxWaiting},
	} {
		if count.value < 1 {
			return fmt.Errorf("sched: %s is %d; it must be 1 or more", count.name, count.value)
		}
	}
	if o.MaxBatchedTokens < o.MaxSeqs+o.PageSize {
		return fmt.Errorf("sched: a step takes %d tokens (max-num-batched-tokens); with %d requests running at once (max-num-seqs) it must take %d, a token for each and a page of %d for a prompt", o.MaxBatchedTokens, o.MaxSeqs, o.MaxSeqs+o.PageSize, o.PageSize)
	}
	if o.Whole && o.MaxBatchedTokens < o.MaxContext {
		return fmt.Errorf("sched: a step takes %d tokens and a request may have %d, which are computed in one step, since they see one another; lower the context to %d or raise max-num-batched-tokens", o.MaxBatchedTokens, o.MaxContext, o.MaxBatchedTokens)
	}
	if o.Watermark < 0 || o.Watermark >= o.Pages {
		return fmt.Errorf("sched: the watermark is %d pages of %d; it must leave some to use", o.Watermark, o.Pages)
	}
	if !(o.WaitingServedRatio >= 0) || math.IsInf(o.WaitingServedRatio, 0) || o.MaxHeldSteps < 0 || o.AgingBound < 0 {
		return fmt.Errorf("sched: waiting-served-ratio %v, its %d steps and the aging bound of %d ns must be finite and not negative", o.WaitingServedRatio, o.MaxHeldSteps, o.AgingBound)
	}
	if !(o.TargetITL >= 0) || o.TargetITL > 0 && o.Price == nil {
		return fmt.Errorf("sched: a target inter-token latency of %v µs needs a number that is not negative and a price of steps", o.TargetITL)
	}
	if o.ITLRatio != 0 && (!(o.ITLRatio > 1) || o.Price == nil || o.Usual == nil) {
		return fmt.Errorf("sched: prompts may make a step %v times as long (ITLRatio); it needs a number above 1, or 0 for none, and prices of steps", o.ITLRatio)
	}
	return nil
}

func (o *Options) pagesFor(tokens int) int { return (tokens + o.PageSize - 1) / o.PageSize }
