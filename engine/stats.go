package engine

import (
	"time"

	"github.com/ridge-llm/ridge/engine/draft"
)

// Stats is what an engine has done and its state now.
type Stats struct {
	Running int // requests
	Waiting int // requests
	Backlog int // tokens to compute before all of them have had a first token

	CacheRows int // that the running requests' next tokens attend to

	Pages     int // of the cache group that keeps most rows
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

	DraftMethod    string                 // of speculative decoding; "": tokens are not drafted
	MaxDraft       int                    // tokens of a draft, at most
	Drafts         int64                  // that steps verified
	DraftTokens    int64                  // in them
	AcceptedTokens int64                  // of those
	AcceptedAt     [draft.MaxTokens]int64 // likewise, by the number of tokens before them in the draft

	AdapterLoads int64 // adapters put into slots

	Kept KeptStats // beyond the device

	Steps    int64
	Computed int64         // tokens that steps moved forward
	Output   int64         // tokens emitted
	StepTime time.Duration // of steps of late: an average that forgets
	HostTime time.Duration // of it, before the device was given the step and after it had done it
	Rate     float64       // tokens per second of stepping, likewise; 0 before the first step
	Answer   float64       // tokens of an answer, likewise, of those that have ended
}

// Busy is the part of late steps' time in which the device was at work; 0 before the first.
func (s *Stats) Busy() float64 {
	if s.StepTime <= 0 {
		return 0
	}
	return min(max(1-s.HostTime.Seconds()/s.StepTime.Seconds(), 0), 1)
}

// forget is the weight of the newest step in the averages.
const forget = 0.05

// record notes a step that moved so many tokens, and how much of its time the device had nothing to do. Only the engine's goroutine calls it.
func (s *Stats) record(tokens int, took, host time.Duration) {
	s.Steps++
	s.Computed += int64(tokens)
	rate := float64(tokens) / max(took.Seconds(), 1e-9)
	if s.Steps == 1 {
		s.StepTime, s.HostTime, s.Rate = took, host, rate
		return
	}
	s.StepTime += time.Duration(forget * float64(took-s.StepTime))
	s.HostTime += time.Duration(forget * float64(host-s.HostTime))
	// The weight of a step is its time, so that a few large steps count for what they are worth.
	weight := forget * min(took.Seconds()/max(s.StepTime.Seconds(), 1e-9), 1/forget)
	s.Rate += weight * (rate - s.Rate)
}

// ended notes an answer of so many tokens.
func (s *Stats) ended(tokens int) {
	if s.Answer == 0 {
		s.Answer = float64(tokens)
		return
	}
	s.Answer += forget * (float64(tokens) - s.Answer)
}
