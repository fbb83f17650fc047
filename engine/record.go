package engine

import (
	"time"

	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
)

// NoParent is the parent of a request that is no sibling of another.
const NoParent = -1

// Recorder is given, in order, all that scheduling depends on and what it decides: enough to do the same again. The engine's
// goroutine calls it and waits. Where steps are launched ahead, step n+1 is Scheduled before the Outputs of step n.
type Recorder interface {
	// Admitted is a request that joins the queue, at a time since the engine began. A sibling of another request has that one as its
	// parent, others have none: NoParent. It joins its parent where that has room, when the step that computes the prompt is collected.
	Admitted(id, parent int64, at time.Duration, r *Request)
	// Adapted is a request with adapters that was Admitted before and waits its turn from now on: they are in their slots. A sibling has those of its parent.
	Adapted(id int64, at time.Duration, adapters []AdapterPart)
	// Left is one that goes without an end of its own: its caller has gone, or the scheduler refused it.
	Left(id int64)
	// Priced is what the scheduler was told that a step takes, in seconds: with it a schedule depends on nothing that is not here.
	Priced(seconds float64)
	// Scheduled is the step that comes next. The schedule is valid during the call. It is empty when no request needs a step, which
	// happens when the engine wakes for nothing.
	Scheduled(p *sched.Schedule)
	// Drafted is the draft that the step which was Scheduled last verifies for a request. Its slices are valid during the call.
	Drafted(id int64, d draft.Draft)
	// Waits is how a request waits for its tokens in the oldest step in flight, with which so many are known, for the sake of drafts.
	Waits(id int64, known int, how Wait)
	// DraftingStopped says that the drafter failed and was switched off.
	DraftingStopped()
	// Output is what the oldest step in flight added to an answer.
	Output(id int64, s StepOutput)
	// Stepped is the end of the oldest step in flight, which took so long.
	Stepped(took time.Duration)
}

// StepOutput is what one step added to an answer: a token, or several where a grammar left no choice or tokens of a draft were accepted.
type StepOutput struct {
	Tokens []int32       `json:"t,omitempty"`
	Reason sample.Reason `json:"r,omitempty"` // why the answer ends here; "": it goes on, or Err
	Err    string        `json:"e,omitempty"`
}

// AdapterPart is what steps have of an adapter of a request.
type AdapterPart struct {
	Rank  int `json:"rank"`  // the largest
	Bytes int `json:"bytes"` // of a number
	From  int `json:"from"`  // the position of the prompt from which on it acts; beyond the prompt: it does not
}

// unrecorded is the Recorder of an engine without one.
type unrecorded struct{}

func (unrecorded) Admitted(int64, int64, time.Duration, *Request) {}
func (unrecorded) Adapted(int64, time.Duration, []AdapterPart)    {}
func (unrecorded) Left(int64)                                     {}
func (unrecorded) Priced(float64)                                 {}
func (unrecorded) Scheduled(*sched.Schedule)                      {}
func (unrecorded) Drafted(int64, draft.Draft)                     {}
func (unrecorded) Waits(int64, int, Wait)                         {}
func (unrecorded) DraftingStopped()                               {}
func (unrecorded) Output(int64, StepOutput)                       {}
func (unrecorded) Stepped(time.Duration)                          {}
