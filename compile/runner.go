package compile

import (
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

// Runner is what steps run on: a Program on one device, or a Group of devices that share a model.
type Runner interface {
	// Limits bounds steps; Groups is the cache groups, and PageBytes what a page takes in one, on all devices.
	Limits() backend.Limits
	Groups() []graph.CacheGroup
	PageBytes(group int) int64
	Memory() Memory

	// Run computes a step, and RunBody one that wants hidden states and no logits. The batch must have passed Check.
	Run(b *backend.Batch) error
	RunBody(b *backend.Batch) error
	// CopyPage copies a page in every cache of a group, in order with the steps; SwapOut and SwapIn move pages to host memory and back.
	CopyPage(group int, from, to int32) error
	// StatePages is how many pages of one cache group a state of another takes on every device; 0: it cannot be kept there. StoreState copies a state to such pages,
	// and FetchState one back, in order with the steps.
	StatePages(state, into int) int
	StoreState(state int, from int32, into int, pages []int32) error
	FetchState(state int, to int32, into int, pages []int32) error
	SwapOut(group int, from, to []int32) error
	SwapIn(group int, from, to []int32) error

	// SetAdapter begins to fill slot with an adapter, of which of gives what is for a weight with slots, or nil. It is called between steps. set is called
	// when the slot is filled, perhaps before SetAdapter returns, or in another goroutine, or with why it is not; nil: nobody asks. A step that uses
	// the slot before waits for it.
	SetAdapter(slot int, of func(w *graph.Weight) *graph.LowRank, set func(error)) error
	// PackAdapter does what it can of SetAdapter ahead, in so many goroutines beside steps.
	PackAdapter(of func(w *graph.Weight) *graph.LowRank, goroutines int) error
	// Slots is the weights that adapters fill, on all devices.
	Slots() []*graph.Weight

	// Vocab is the width of a row of logits, Ids how many token ids there are. Encoder says that hidden states are all there is.
	Vocab() int
	Ids() int
	Encoder() bool
	// Logits copies rows of logits, and Rows gives the first n of them where they lie, if HostReads, or in a buffer.
	Logits(dst []float32, from, n int) error
	Rows(buffer []float32, n int) ([]float32, error)
	HostReads() bool
	// Hidden copies rows of hidden states, of HiddenWidth numbers; HiddenOfAll says that every token has one.
	Hidden(dst []float32, from, n int) error
	HiddenWidth() int
	HiddenOfAll() bool

	// CanSample says that Sample and SampleResults take the place of Rows. RunsAhead says of such a Runner that all devices that look tokens up know those that they have sampled last, so
	// that a step can have placeholders for them (backend.Batch).
	CanSample() bool
	RunsAhead() bool
	Sample(samples []sampling.Sample) error
	SampleResults(dst []sampling.Result) (time.Duration, error)

	// ThreadLender is a device that lends its threads out between steps, or nil.
	ThreadLender() (l backend.ThreadLender, threads int)
	// Warm does now what would be put off to the first steps. Close frees memory; devices stay.
	Warm()
	Close()
}

// Pipelined is a Runner of several stages that compute steps side by side: while the last one is at a step, those before it are at the next ones. Everything that a Runner is asked to do
// in between (copies of pages, swaps, states) is done on every device in its place between the steps.
type Pipelined interface {
	Runner
	// Stages is how many steps keep all devices at work; below 2: none are to be begun ahead.
	Stages() int
	// Begin has the stages but the last begin with a step, as RunBody where it wants hidden states and no logits. The batch is the Runner's until the step has ended.
	Begin(b *backend.Batch, body bool) error
	// End computes what is left of the step that was begun first. Logits and hidden states are its until the next End.
	End() error
	// Abandon ends all steps that have begun; nobody wants their results. After an error fewer are left.
	Abandon() error
}

var (
	_ Runner    = (*Program)(nil)
	_ Pipelined = (*Group)(nil)
)
