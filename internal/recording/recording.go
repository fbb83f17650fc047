// Package recording writes what an engine did, for replays and for learning prices from it (internal/simulate).
package recording

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/sched"
)

// A recording is JSON, a line for each event in the order in which the engine saw them, and a first line that says what
// was recorded. It holds the prompts' and answers' tokens. The last line says that it is complete: a recording without it was cut off,
// by a full disk or because the server was killed.

// Version of the format.
const Version = 3

// Header is a recording's first line: an engine's limits and settings.
type Header struct {
	Version            int            `json:"ridge_recording"`
	Model              string         `json:"model"`
	Vocab              int            `json:"vocab"`
	Limits             backend.Limits `json:"limits"`
	Policy             sched.Policy   `json:"policy"`
	Index              string         `json:"index"`
	MaxWaiting         int            `json:"max_waiting"`
	StepTokens         int            `json:"step_tokens"`
	WaitingServedRatio float64        `json:"waiting_served_ratio"`
	TargetITL          time.Duration  `json:"target_itl_ns"`
	ITLRatio           float64        `json:"itl_ratio,omitempty"`
	RunsAhead          bool           `json:"runs_ahead,omitempty"` // the device samples tokens itself, and knows them in the next step
	SwapPage           time.Duration  `json:"swap_page_ns,omitempty"`
	AgingBound         time.Duration  `json:"aging_bound_ns,omitempty"`
	Speculation        *Speculation   `json:"speculation,omitempty"` // nil: nothing was drafted
}

// Speculation is the settings of speculative decoding.
type Speculation struct {
	Method string `json:"method"`
	Tokens int    `json:"num_speculative_tokens"`
	Always bool   `json:"always,omitempty"`
	Hidden bool   `json:"from_hidden,omitempty"` // a drafter goes on from hidden states
}

// NewHeader describes an engine.
func NewHeader(model string, vocab int, lim backend.Limits, o engine.Options, runsAhead bool) Header {
	var drafts *Speculation
	if s := o.Speculation; s.Drafter != nil {
		_, hidden := s.Drafter.(draft.FromHidden)
		drafts = &Speculation{s.Drafter.Name(), s.Tokens, s.Always, hidden}
		for _, b := range s.Beside {
			_, hidden := b.Drafter.(draft.FromHidden)
			drafts.Hidden, drafts.Tokens = drafts.Hidden || hidden, max(drafts.Tokens, b.Tokens)
		}
	}
	return Header{
		Version: Version, Model: model, Vocab: vocab, Limits: lim, Policy: o.Policy, Index: o.Index, MaxWaiting: o.MaxWaiting, StepTokens: o.StepTokens,
		WaitingServedRatio: o.WaitingServedRatio, TargetITL: o.TargetITL, ITLRatio: o.ITLRatio, RunsAhead: runsAhead, SwapPage: o.SwapPage, AgingBound: o.AgingBound, Speculation: drafts,
	}
}

// Options are the settings of an engine like the recorded one, without a drafter.
func (h *Header) Options() engine.Options {
	return engine.Options{Policy: h.Policy, Index: h.Index, MaxWaiting: h.MaxWaiting, StepTokens: h.StepTokens, WaitingServedRatio: h.WaitingServedRatio, TargetITL: h.TargetITL, ITLRatio: h.ITLRatio, SwapPage: h.SwapPage, AgingBound: h.AgingBound}
}

// Event is any other line: one of its fields is set.
type Event struct {
	Admitted  *Admitted      `json:"admitted,omitempty"`
	Adapted   *Adapted       `json:"adapted,omitempty"`
	Left      *int64         `json:"left,omitempty"`
	Scheduled *Decision      `json:"scheduled,omitempty"`
	Drafted   *Drafted       `json:"drafted,omitempty"`
	Waits     *Waits         `json:"waits,omitempty"`
	Stopped   bool           `json:"drafting_stopped,omitempty"` // the drafter failed
	Output    *output        `json:"output,omitempty"`
	Stepped   *time.Duration `json:"stepped_ns,omitempty"`
	End       *End           `json:"end,omitempty"`
}

// End is the last line of a complete recording.
type End struct {
	Lines int    `json:"lines"`  // before this one
	Sum   uint32 `json:"crc32c"` // of their bytes
}

// NewSum is the checksum of End.
func NewSum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

// Admitted is a request that joined the queue.
type Admitted struct {
	ID        int64         `json:"id"`
	At        time.Duration `json:"at_ns"` // since the engine began
	Prompt    []int32       `json:"prompt"`
	MaxTokens int           `json:"max_tokens"`
	Priority  int           `json:"priority,omitempty"`
	Salt      uint64        `json:"salt,omitempty"`
	Hidden    bool          `json:"hidden,omitempty"`   // it wants hidden states
	Embedded  bool          `json:"embedded,omitempty"` // its prompt is embeddings, which are not recorded
	Scored    bool          `json:"scored,omitempty"`   // it wants the log-probabilities of its prompt
	// Constrained says that a grammar keeps the answer inside a language.
	Constrained bool `json:"constrained,omitempty"`
	// Parent is the request whose sibling this one is, if it is one's.
	Parent *int64 `json:"parent,omitempty"`
	// Adapters act on its tokens once it is Adapted, or its parent.
	Adapters []Adapter `json:"adapters,omitempty"`
}

// Adapter is an adapter by its number, counted in the order in which they came, and what its changes are multiplied by.
type Adapter struct {
	ID    uint64  `json:"id"`
	Scale float32 `json:"scale"`
}

// Adapted is a request that joins the queue now that its adapters are on the device.
type Adapted struct {
	ID       int64                `json:"id"`
	At       time.Duration        `json:"at_ns"` // since the engine began
	Adapters []engine.AdapterPart `json:"adapters"`
}

// Decision is a schedule: the tokens of each request, and the preempted requests.
type Decision struct {
	Chunks  [][2]int64 `json:"chunks"` // request, tokens
	Preempt []int64    `json:"preempt,omitempty"`
	Prices  []float64  `json:"prices,omitempty"` // that the scheduler was told since the schedule before, s
}

// Drafted is the draft that a step verifies for a request.
type Drafted struct {
	ID      int64   `json:"id"`
	Tokens  []int32 `json:"t"`
	Parents []int   `json:"p,omitempty"` // see draft.Draft; none: a chain
}

// Waits is a request that waits for its tokens in the oldest step in flight, for the sake of drafts.
type Waits struct {
	ID    int64 `json:"id"`
	Known int   `json:"known"`           // tokens, with those in flight
	Batch bool  `json:"batch,omitempty"` // the next step waits with it; else that is launched without it
}

type output struct {
	ID int64 `json:"id"`
	engine.StepOutput
}

// DecisionOf copies what a schedule decides.
func DecisionOf(p *sched.Schedule) *Decision {
	d := &Decision{Chunks: make([][2]int64, 0, len(p.Chunks))}
	for _, c := range p.Chunks {
		d.Chunks = append(d.Chunks, [2]int64{c.Request.ID, int64(c.Tokens)})
	}
	for _, x := range p.Preempt {
		d.Preempt = append(d.Preempt, x.Request.ID)
	}
	return d
}

// Writer writes a recording; it implements engine.Recorder. The first error stops it: failed is told at once, and Close returns it.
type Writer struct {
	out     *bufio.Writer
	encoder *json.Encoder
	failed  func(error)
	sum     hash.Hash32
	lines   int
	flushed time.Time
	active  int  // requests that have not ended
	idle    bool // the step last scheduled is of no request
	prices  []float64
	known   map[uint64]uint64 // the number of each adapter
	hiding  *hiding           // nil: tokens are recorded as they are
	err     error
}

// NewWriter starts a recording. Begin must be called before the engine has anything to do. failed may be nil; the engine's goroutine
// calls it.
func NewWriter(out io.Writer, failed func(error)) *Writer {
	w := &Writer{out: bufio.NewWriterSize(out, 1<<20), failed: failed, sum: NewSum(), known: map[uint64]uint64{}}
	w.encoder = json.NewEncoder(io.MultiWriter(w.out, w.sum))
	return w
}

// Hide has the recording hold no token of a prompt, a draft or an answer but of requests that are Shown: see hiding. It must be called before Begin.
func (w *Writer) Hide(vocab int) { w.hiding = newHiding(vocab) }

// Begin writes the first line.
func (w *Writer) Begin(h Header) error {
	w.put(h)
	w.flush()
	return w.err
}

// Close writes the last line, and what is still in memory.
func (w *Writer) Close() error {
	w.put(Event{End: &End{w.lines, w.sum.Sum32()}})
	w.flush()
	return w.err
}

func (w *Writer) put(line any) {
	if w.err == nil {
		w.lines++
		w.note(w.encoder.Encode(line))
	}
}

func (w *Writer) flush() {
	if w.err == nil {
		w.flushed = time.Now()
		w.note(w.out.Flush())
	}
}

// note keeps the first error.
func (w *Writer) note(err error) {
	if err == nil {
		return
	}
	w.err = fmt.Errorf("recording: it ends here and is not complete: %w", err)
	if w.failed != nil {
		w.failed(w.err)
	}
}

// Admitted implements engine.Recorder.
func (w *Writer) Admitted(id, parent int64, at time.Duration, r *engine.Request) {
	a := &Admitted{
		ID: id, At: at, Prompt: r.Prompt, MaxTokens: r.MaxTokens, Priority: r.Priority, Salt: r.Salt, Hidden: r.Hidden != nil, Embedded: r.Embeddings != nil, Scored: r.PromptLogprobs != nil,
		Constrained: r.Grammar != nil || r.Constrained,
	}
	if parent != engine.NoParent {
		a.Parent = &parent
	}
	for _, u := range r.Adapters {
		if w.known[u.ID] == 0 {
			w.known[u.ID] = uint64(len(w.known) + 1)
		}
		a.Adapters = append(a.Adapters, Adapter{w.known[u.ID], u.Scale})
	}
	if w.hiding != nil {
		a.Prompt = w.hiding.admitted(id, r.Shown, r.Salt, r.Prompt)
	}
	w.active++
	w.put(Event{Admitted: a})
}

// Adapted implements engine.Recorder.
func (w *Writer) Adapted(id int64, at time.Duration, adapters []engine.AdapterPart) {
	w.put(Event{Adapted: &Adapted{id, at, adapters}})
}

// Left implements engine.Recorder.
func (w *Writer) Left(id int64) {
	w.active--
	if w.hiding != nil {
		w.hiding.ended(id)
	}
	w.put(Event{Left: &id})
}

// Priced implements engine.Recorder.
func (w *Writer) Priced(seconds float64) { w.prices = append(w.prices, seconds) }

// Scheduled implements engine.Recorder.
func (w *Writer) Scheduled(p *sched.Schedule) {
	if w.idle = Empty(p); !w.idle {
		d := DecisionOf(p)
		d.Prices = w.prices
		w.put(Event{Scheduled: d})
		w.prices = w.prices[:0]
	}
}

// Empty reports whether a schedule moves no request. Such are not recorded: how often an engine wakes for nothing is chance.
func Empty(p *sched.Schedule) bool { return len(p.Chunks)+len(p.Preempt) == 0 }

// Drafted implements engine.Recorder.
func (w *Writer) Drafted(id int64, d draft.Draft) {
	x := &Drafted{ID: id, Tokens: d.Tokens}
	if !d.Chain() {
		x.Parents = d.Parents
	}
	if w.hiding != nil {
		x.Tokens = w.hiding.draft(id, d)
	}
	w.put(Event{Drafted: x})
}

// Waits implements engine.Recorder.
func (w *Writer) Waits(id int64, known int, how engine.Wait) {
	w.put(Event{Waits: &Waits{id, known, how == engine.WaitBatch}})
}

// DraftingStopped implements engine.Recorder.
func (w *Writer) DraftingStopped() { w.put(Event{Stopped: true}) }

// Output implements engine.Recorder.
func (w *Writer) Output(id int64, s engine.StepOutput) {
	if w.hiding != nil {
		s.Tokens = w.hiding.output(id, s.Tokens)
	}
	if s.Reason != "" || s.Err != "" {
		w.active--
		if w.hiding != nil {
			w.hiding.ended(id)
		}
	}
	w.put(Event{Output: &output{id, s}})
}

// flushTime is how much of a recording may be in memory only while requests run; once none does, nothing is.
const flushTime = time.Second

// Stepped implements engine.Recorder.
func (w *Writer) Stepped(took time.Duration) {
	if w.idle {
		return
	}
	w.put(Event{Stepped: &took})
	if w.active == 0 || time.Since(w.flushed) > flushTime {
		w.flush()
	}
}
