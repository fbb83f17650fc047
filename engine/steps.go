package engine

import (
	"slices"
	"sync"
	"time"
)

// Step is what a step was and took.
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

// keptSteps is how many steps are remembered.
const keptSteps = 512

// history is the latest steps, in a ring.
type history struct {
	mu    sync.Mutex
	steps [keptSteps]Step
	made  int          // of all time
	told  []func(Step) // of each step, by the engine's goroutine
}

func (h *history) put(s Step) {
	h.mu.Lock()
	h.steps[h.made%keptSteps] = s
	h.made++
	told := h.told
	h.mu.Unlock()
	for _, f := range told {
		f(s)
	}
}

// onStep is Engine.OnStep.
func (h *history) onStep(f func(Step)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(slices.Clip(h.told), f)
}

// latest is Engine.Steps.
func (h *history) latest(n int) []Step {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = max(0, min(n, h.made, keptSteps))
	steps := make([]Step, 0, n)
	for i := h.made - n; i < h.made; i++ {
		steps = append(steps, h.steps[i%keptSteps])
	}
	return steps
}
