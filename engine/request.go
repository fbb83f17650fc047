package engine

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/engine/account"
	"github.com/ridge-llm/ridge/engine/diffusion"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/offload"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
)

// Request is a prompt with what to do about it.
type Request struct {
	Prompt []int32
	// Embeddings, [len(Prompt), width], are the prompt in place of its ids, which may be any: what the model's table of tokens, scaled, would have.
	// The beginning of such a prompt is not shared. nil: the prompt is ids.
	Embeddings []float32
	Params     sample.Params
	MaxTokens  int              // of the answer
	Ends       []int32          // tokens that end the answer; they are not emitted
	Grammar    *grammar.Matcher // keeps the answer inside a language; nil: any answer. The engine's from Submit on
	Priority   int              // for the priority policy: lower goes first
	Salt       uint64           // only requests of equal salt share cached beginnings
	Shown      bool             // a Recorder that hides tokens keeps this one's
	// Adapters act on the request's tokens; their changes add up.
	Adapters []AdapterUse
	// Emit gets each token of the answer; returning true ends it there.
	Emit func(sample.Choice) (stop bool)
	// Hidden, when set, makes this a request for hidden states in place of an answer, and Emit is not called: it gets the
	// rows of the prompt's tokens from position from on, [n, width]; see embed.go.
	Hidden func(from int, rows []float32)
	// PromptLogprobs, when set, gets the log-probability of each token of the prompt but the first, in the order of their positions, with as many of the
	// likeliest tokens as Params.TopLogprobs says; see prompt_logprobs.go. A sibling has none.
	PromptLogprobs func(position int, c sample.Choice)
	// Second is where the second of two texts begins in the prompt, for encoders that tell them apart; 0: there is one.
	Second int
	// Diffusion is how an answer of a model that fills masked tokens in is found.
	Diffusion diffusion.Options
	// Forced, if not nil, is the answer: one StepOutput comes with each step, and nothing is sampled. For replay.
	Forced []StepOutput
	// ForcedDrafts are the drafts that steps verified when the Forced answer was made, by the number of tokens that were known then. nil: the
	// engine's drafter is asked.
	ForcedDrafts map[int]draft.Draft
	// ForcedWaits is how the request waited for tokens in flight when the Forced answer was made, by the number of tokens that were known with those.
	ForcedWaits map[int]Wait
	// Constrained says that a grammar kept the Forced answer inside a language when it was made. It is scheduled as one with a Grammar.
	Constrained bool
	// Peer is a server that computes the prompt, or has computed it: what is missing here of its whole pages comes from there. nil: none does.
	Peer offload.Peer
	// LeaseTime keeps what was computed for another server, under the name Lease, for so long; 0: it is not kept.
	Lease     kv.Key
	LeaseTime time.Duration
	// Done gets the end.
	Done func(Final)
}

// Final says how a request ended.
type Final struct {
	Reason   sample.Reason // stop or length; empty when Err is set
	Err      error
	End      *sample.Choice     // the token of Request.Ends that ended it, if one did
	Cached   int                // tokens of the prompt that were found in the cache
	Imported [2 + MaxStores]int // of those, that came from host memory, from each store, and from peers
	Stranded int                // tokens of the prompt after those that it had, but not the state or the window to go on from them
	Output   int                // tokens emitted
	Drafted  int                // tokens of its drafts
	Accepted int                // of them, those that were accepted
	Steps    int                // of denoising
	Account  account.Account
}

// request is a Request under way.
type request struct {
	Request
	sched      sched.Request
	ctx        context.Context
	forget     func() bool // stops watching ctx
	err        error       // why the scheduler refused it
	sampling   *sample.State
	seq        kv.Seq
	whole      bool       // its owner sees the rows of all its tokens: none of them may come from the cache
	away       bool       // its pages are in host memory
	siblings   []*request // that begin when the prompt is computed
	slots      []int      // of its adapters, while it holds them
	numbers    []AdapterNumbers
	acts       []int   // from which position on each of them acts
	salt       kv.Salt // of its pages
	tokens     []int32 // prompt and answer so far
	asked      int     // rows of the prompt whose logits have been asked for, for PromptLogprobs: those of its first tokens
	scored     int     // of them, those that have been handed over
	pending    int     // tokens in flight: steps that are launched sample them after those in tokens
	future     int     // index of the first of them among the samples of the last of those steps
	ended      bool
	end        *sample.Choice                                // see Final.End
	stranded   int                                           // tokens of the prompt beyond those that the cache had without a state or a window to go on from
	cached     int                                           // tokens of the prompt that were found in the cache
	output     int                                           // tokens emitted
	drafted    int                                           // tokens of its drafts
	accepted   int                                           // of them, those that were accepted
	mask       []uint32                                      // tokens that Grammar allows next, a bit each
	other      kv.Seq                                        // of a guided answer: of the pass that is not at hand
	before     kv.Seq                                        // seq before the step in flight, where that verifies a draft with recurrent layers
	draft      draft.Draft                                   // that the step in flight verifies
	draftedBy  int                                           // which drafter has proposed it
	offer      offer                                         // of drafters that are asked freely
	waits      bool                                          // for its token in flight: the next step is launched without it
	silent     int                                           // times that nothing came of asking the drafter, since something did
	draftMasks [][]uint32                                    // tokens that Grammar allows after each of its tokens
	choose     func(logits []float32, drafted []int32) int32 // see draft.Sequence; nil before the first draft
	estimates  []draft.Acceptance                            // of its drafts, by drafter; nil before the first
	maskErr    error
	denoising  *denoising // of an answer whose tokens are found in any order; nil: they come one behind the other
	ledger     account.Ledger
	keys       []kv.Key           // of the prompt's pages, if any are kept beyond the device
	fetch      *offload.Fetch     // that it waits for
	imported   [2 + MaxStores]int // tokens of the prompt that came from host memory, and from each store
	kept       int                // pages that were given to the tier
}

// finish calls Done. A panic in it is not the engine's.
func (r *request) finish(f Final) {
	defer func() { _ = recover() }()
	r.Done(f)
}

// take adds a token to the answer. It returns why the request ends with it; "" when it goes on.
func (r *request) take(c sample.Choice) sample.Reason {
	r.sampling.Observe(c.Token)
	if slices.Contains(r.Ends, c.Token) {
		end := c // not c itself: every token would be allocated
		end.Top = slices.Clone(c.Top)
		r.end = &end
		return sample.ReasonStop
	}
	r.tokens = append(r.tokens, c.Token)
	r.output++
	switch stop := r.Emit(c); {
	case stop:
		return sample.ReasonStop
	case len(r.tokens) == r.sched.Limit:
		return sample.ReasonLength
	}
	return ""
}

// findMask asks the grammar which tokens may come next. A mistake in it becomes the request's own.
func (r *request) findMask(vocab int) {
	defer func() {
		if p := recover(); p != nil {
			r.maskErr = &PanicError{p, debug.Stack()}
		}
	}()
	if r.mask == nil {
		r.mask = make([]uint32, (vocab+31)/32)
	}
	r.maskErr = r.Grammar.Mask(r.mask)
}
