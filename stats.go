package ridge

import (
	"time"

	"github.com/ridge-llm/ridge/engine"
)

// Stats is what a model's engine has done, and its queue and cache now.
type Stats struct {
	Running int // requests
	Waiting int // requests
	Backlog int // tokens to compute before all of them have had a first token

	CacheRows int // that the running requests' next tokens attend to

	Pages     int // of the cache
	PageSize  int // tokens in one
	PagesUsed int // by running requests
	PagesIdle int // kept only because their tokens may be asked for again

	States       int // of recurrent layers: sequences' and kept ones
	StatesKept   int // after beginnings of texts that may be asked for again
	StatesStored int // of those, in pages of the cache

	Queried     int64 // prompt tokens that were looked for in the cache
	Found       int64 // of them, found
	Stranded    int64 // computed though they were known: a recurrent layer's state, or pages of a window, were gone
	Evicted     int64 // idle pages evicted and reused
	Preemptions int64 // requests that had to give up their pages
	Swaps       int64 // of them, those that were swapped out; the others were computed again
	SwappedOut  int64 // pages moved to host memory
	SwappedIn   int64 // and back
	HostPages   int   // that there are in host memory
	HostUsed    int   // by requests that are swapped out
	Swapped     int   // such requests

	DraftMethod    string    // of speculative decoding; "": tokens are not drafted
	MaxDraft       int       // tokens of a draft, at most
	Drafts         int64     // that steps verified
	DraftTokens    int64     // in them
	AcceptedTokens int64     // of those
	AcceptedAt     [32]int64 // likewise, by the number of tokens before them in the draft

	AdapterLoads int64 // adapters put into slots

	Kept KeptStats // beyond the cache

	Steps    int64
	Computed int64         // tokens that steps moved forward
	Output   int64         // tokens emitted
	StepTime time.Duration // of steps of late: an average that forgets
	HostTime time.Duration // of it, before the device was given the step and after it had done it
	Rate     float64       // tokens per second of stepping, likewise; 0 before the first step
	Answer   float64       // tokens of an answer, likewise, of those that have ended
}

// Busy is the part of late steps' time in which the device was at work, 0 to 1; 0 before the first.
func (s Stats) Busy() float64 { return (*engine.Stats)(&s).Busy() }

// Stats is the state after the engine's last step.
func (m *Model) Stats() Stats {
	s := Stats(m.engine.Stats())
	s.Kept.Found, s.Kept.Read, s.Kept.Written = placed(m.sharedAlone, s.Kept.Found), placed(m.sharedAlone, s.Kept.Read), placed(m.sharedAlone, s.Kept.Written)
	return s
}

// Queue is how long a request that comes now waits until its prompt is begun with, at least, and what a token of a prompt takes, as steps are
// priced; 0 before the first step.
func (m *Model) Queue() (wait, token time.Duration) { return m.engine.Queue() }

// Step is one step of a model's engine: what it computed, and how long it took.
type Step struct {
	At        time.Duration `json:"at_ns"` // when it ended, since the engine began
	Requests  int           `json:"requests"`
	Tokens    int           `json:"tokens"`
	Logits    int           `json:"logits"`       // rows of them
	Rows      int           `json:"cache_rows"`   // that its tokens attended to
	Predicted time.Duration `json:"predicted_ns"` // as it was priced before it was known; 0: it was not
	Actual    time.Duration `json:"actual_ns"`
	Host      time.Duration `json:"host_ns"` // of it, with nothing for the device to do

	Drafter        string  `json:"drafter,omitempty"`         // of the drafts that the step verified; "": there were none
	Drafts         int     `json:"drafts,omitempty"`          // requests with one
	DraftTrees     int     `json:"draft_trees,omitempty"`     // of them, those that were no chains
	DraftTokens    int     `json:"draft_tokens,omitempty"`    // in all of them
	LongestDraft   int     `json:"longest_draft,omitempty"`   // tokens of the longest branch
	AcceptedTokens int     `json:"accepted_tokens,omitempty"` // of DraftTokens
	ExpectedGain   float64 `json:"expected_gain,omitempty"`   // the rate of tokens with the drafts by that without, as expected before; 0: drafts were not planned by it

	PredictedDrafting time.Duration `json:"predicted_drafting_ns,omitempty"` // what drafting was priced at, which Predicted is without and Actual with
}

// Steps is the engine's latest steps, at most n, each with what had been predicted; the newest is at the end.
func (m *Model) Steps(n int) []Step {
	latest := m.engine.Steps(n)
	steps := make([]Step, len(latest))
	for i, s := range latest {
		steps[i] = Step(s)
	}
	return steps
}

// OnStep has f called with every step from now on as it ends. The engine waits for it: f must not block.
func (m *Model) OnStep(f func(Step)) { m.engine.OnStep(func(s engine.Step) { f(Step(s)) }) }
