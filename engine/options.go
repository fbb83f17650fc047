package engine

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/predict"
	"github.com/ridge-llm/ridge/engine/sched"
)

// Options are an engine's settings. The zero value is a good choice.
type Options struct {
	Policy     sched.Policy // in which order waiting requests are taken; "" is first come, first served
	Index      string       // how cached beginnings are found: radix, hash or none; "" is radix
	MaxWaiting int          // requests that wait at most; more are refused. 0: 4096
	StepTokens int          // tokens in a step; 0: as many as the program was compiled for

	// AgingBound is how long sched.LongestPrefix may let a request wait for the sake of others with more in the cache, and how long one whose adapters have no
	// slot may wait for the sake of others that have; 0: 10 s.
	AgingBound time.Duration
	// WaitingServedRatio lets requests wait until there are so many times as many as are running, or for heldSteps steps:
	// fewer interruptions of answers by prompts. 0: none waits for that.
	WaitingServedRatio float64
	// TargetITL is the time between two tokens of an answer that prompts beside it should leave; 0: no matter.
	TargetITL time.Duration
	// ITLRatio, where there is no TargetITL, is how many times as long as with the answers in it alone a step may take for the sake of prompts; 0:
	// any time.
	ITLRatio float64
	// SwapPage is what it takes to move a page to host memory or back, for choosing between that and computing it again at
	// preemption; backend.Limits.SwapPages says how many pages there are.
	SwapPage time.Duration
	// Predictor says what steps take: which chunk of a prompt still fits in TargetITL, and whether swapping is cheaper. nil,
	// and whenever it cannot tell: averages of what was measured.
	Predictor predict.Predictor
	// Diffusion says that the model fills masked tokens in; nil: it writes from left to right.
	Diffusion *Diffusion
	// Speculation drafts tokens that steps verify.
	Speculation Speculation
	// Recorder is given what is decided, and on what grounds; nil: none.
	Recorder Recorder
	// Intact says whether the model is still what it was, with an error if not: an answer is given only after it was asked, behind the
	// step that computed it, and an error stops the engine. nil: it always is.
	Intact func() error
	// CacheEvents is called with every change of what is cached, by the engine's goroutine; nil: nobody is told.
	CacheEvents func(kv.Event)
	// Offload keeps pages that leave the device.
	Offload Offload
	// Clock tells the time; nil: time.Now. A simulation has a clock of its own.
	Clock func() time.Time
}

// DefaultITLRatio is the ITLRatio of a server that is not told of its traffic: 99 of 100 gaps between tokens are to be no more than five times the median.
const DefaultITLRatio = 5

const (
	defaultWaiting = 4096
	defaultAging   = 10 * time.Second
	heldSteps      = 32 // steps that the waiting-served ratio may let requests wait for
)

// index is the kv.Index that the options name.
func (o Options) index() (func(pages, pageSize int) kv.Index, error) {
	switch o.Index {
	case "", "radix":
		return kv.Radix, nil
	case "hash":
		return kv.HashBlocks, nil
	case "none":
		return kv.None, nil
	}
	return nil, fmt.Errorf("engine: the index is %q; radix, hash and none are possible", o.Index)
}

// check refuses settings that mean nothing.
func (o Options) check(lim backend.Limits) error {
	switch {
	case o.MaxWaiting < 0:
		return fmt.Errorf("engine: the length of the queue is %d; 0 (%d) or more is possible", o.MaxWaiting, defaultWaiting)
	case o.StepTokens < 0 || o.StepTokens > lim.Tokens:
		return fmt.Errorf("engine: a step of %d tokens; the program was compiled for 1 to %d", o.StepTokens, lim.Tokens)
	case o.TargetITL < 0:
		return fmt.Errorf("engine: a target of %v between tokens; 0 (none) or more is possible", o.TargetITL)
	case o.ITLRatio != 0 && !(o.ITLRatio > 1):
		return fmt.Errorf("engine: prompts may make a step %v times as long; 0 (any time) or more than 1 is possible", o.ITLRatio)
	case o.AgingBound < 0:
		return fmt.Errorf("engine: a request may be left waiting for %v; 0 (%v) or more is possible", o.AgingBound, defaultAging)
	case o.SwapPage < 0:
		return fmt.Errorf("engine: moving a page to host memory takes %v; 0 or more is possible", o.SwapPage)
	}
	if err := o.checkOffload(lim); err != nil {
		return err
	}
	return o.Speculation.check(lim)
}

// sched is what the scheduler is told. Its own queue has no limit: Submit is where that is kept, and what was taken, with its siblings
// or after a preemption, is not refused later.
func (o Options) sched(lim backend.Limits) sched.Options {
	s := sched.Options{
		Policy: o.Policy, Pages: lim.OfRank().Pages, Ranks: lim.Ranks, PageSize: lim.PageSize, MaxContext: room(lim),
		MaxBatchedTokens: lim.Tokens, MaxSeqs: lim.Seqs, MaxWaiting: math.MaxInt, AgingBound: cmp.Or(o.AgingBound, defaultAging).Nanoseconds(),
		WaitingServedRatio: o.WaitingServedRatio, MaxHeldSteps: heldSteps, TargetITL: float64(o.TargetITL.Microseconds()), ITLRatio: o.ITLRatio,
	}
	for _, g := range lim.OfRank().Groups {
		if g.Recurrent {
			s.MaxSeqs = min(s.MaxSeqs, g.Pages-1) // one is for a sequence to go on in while the state that it had is kept
		}
	}
	if s.Policy == "" {
		s.Policy = sched.FCFS
	}
	if o.StepTokens > 0 {
		s.MaxBatchedTokens = o.StepTokens
	}
	return s
}

func (o Options) waiting() int {
	if o.MaxWaiting == 0 {
		return defaultWaiting
	}
	return o.MaxWaiting
}
