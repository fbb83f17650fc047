package simulate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/internal/recording"
)

// Recording is a recorded run of an engine.
type Recording struct {
	recording.Header
	start    []recording.Event // that the engine saw before it scheduled the first step
	steps    []step
	stepped  int // steps that have ended
	requests map[int64]*recorded
	order    []int64 // of admission

	// Incomplete is why the recording is not all that the server did; "" when it is.
	Incomplete string
}

// step is what was recorded of one step.
type step struct {
	schedule *recording.Decision
	drafts   []recording.Drafted // that the step verifies
	during   []recording.Event   // that the engine saw after it had scheduled the step, and before anything else below
	after    []recording.Event   // after the step's end, likewise
	took     time.Duration
}

// recorded is a request with its whole answer.
type recorded struct {
	recording.Admitted
	outputs  []engine.StepOutput
	adapted  *recording.Adapted  // nil: it has no adapters, or never waited its turn
	drafts   map[int]draft.Draft // by the number of tokens that were known
	waits    map[int]engine.Wait // by the number of tokens that were known, with those in flight
	siblings []*recorded
}

// maxLine bounds a line of a recording: a prompt of ten million tokens fits.
const maxLine = 128 << 20

// ReadRecording reads a recording, and checks that none of it was lost or changed. What was cut off at its end does not count;
// Recording.Incomplete says so.
func ReadRecording(name string, in io.Reader) (*Recording, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	r := &Recording{requests: map[int64]*recorded{}}
	bad := func(line int, err error) error {
		return fmt.Errorf("simulate: %s, line %d: %w; a recording is what ridge serve --record writes", name, line, err)
	}
	events := &r.start // to which requests that come and go are added
	r.Incomplete = "its last line is missing: the server was killed or still runs, or its disk was full"
	sum := recording.NewSum()
	for n := 1; lines.Scan(); n++ {
		before := sum.Sum32()
		sum.Write(lines.Bytes())
		sum.Write([]byte{'\n'})
		if n == 1 {
			if err := r.readHeader(lines.Bytes()); err != nil {
				return nil, bad(n, err)
			}
			continue
		}
		var e recording.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || !lines.Scan() {
				break // the last line, half written
			}
			return nil, bad(n, err)
		}
		if r.Incomplete == "" {
			return nil, bad(n, errors.New("it comes after the last line"))
		}
		if e.End != nil {
			if e.End.Lines != n-1 || e.End.Sum != before {
				return nil, bad(n, fmt.Errorf("the recording had %d lines before this one and has %d, or some were changed", e.End.Lines, n-1))
			}
			r.Incomplete = ""
			continue
		}
		if err := r.take(&events, e); err != nil {
			return nil, bad(n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("simulate: %s: %w", name, err)
	}
	if r.Version == 0 {
		return nil, bad(1, errors.New("the file is empty"))
	}
	r.steps = r.steps[:r.stepped] // those that were cut off
	if len(r.steps) == 0 {
		return nil, fmt.Errorf("simulate: %s holds no step; nothing was asked of the server", name)
	}
	return r, nil
}

func (r *Recording) readHeader(line []byte) error {
	if err := json.Unmarshal(line, &r.Header); err != nil {
		return err
	}
	l := r.Limits
	switch {
	case r.Version != recording.Version:
		return fmt.Errorf("the recording's version is %d, and %d is read; record again with this ridge", r.Version, recording.Version)
	case r.Vocab < 1 || r.Vocab > 1<<24 || l.Tokens < 1 || l.Seqs < 1 || l.Logits < 1 || l.Pages < 1 || l.PageSize < 1 || l.SeqPages < 1 || l.SwapPages < 0 || l.SwapPages > 1<<28 ||
		l.Adapters < 0 || l.Adapters > 1<<16 || l.Ranks < 0 || l.Ranks > min(l.Pages, 1<<10) || l.Tokens > 1<<24 || l.Logits > 1<<16 || l.Pages > 1<<28 || l.PageSize > 1<<16 || l.SeqPages > 1<<28:
		return fmt.Errorf("a vocabulary of %d and limits of %+v cannot be", r.Vocab, l)
	}
	return nil
}

// inFlight is how many steps may be scheduled that have not ended.
const inFlight = 2

// take adds an event. events is where requests that come and go are added: to what happened last.
func (r *Recording) take(events *(*[]recording.Event), e recording.Event) error {
	switch {
	case e.Admitted != nil:
		a := *e.Admitted
		switch {
		case r.requests[a.ID] != nil:
			return fmt.Errorf("request %d is admitted twice", a.ID)
		case a.Hidden:
			return fmt.Errorf("request %d asks for embeddings, and such cannot be replayed", a.ID)
		case a.Embedded:
			return fmt.Errorf("request %d has a prompt of embeddings, and such cannot be replayed", a.ID)
		case len(a.Prompt) == 0 || a.MaxTokens < 0:
			return fmt.Errorf("request %d has a prompt of %d tokens and an answer of at most %d", a.ID, len(a.Prompt), a.MaxTokens)
		}
		for _, u := range a.Adapters {
			if most := min(r.Limits.Adapters, backend.MaxSeqAdapters); len(a.Adapters) > most || u.ID == 0 {
				return fmt.Errorf("request %d has %d adapters; numbers from 1 on, and by the recording's limits %d adapters, are possible", a.ID, len(a.Adapters), most)
			}
		}
		q := &recorded{Admitted: a}
		r.requests[a.ID] = q
		r.order = append(r.order, a.ID)
		if a.Parent == nil {
			**events = append(**events, e)
		} else if parent := r.requests[*a.Parent]; parent != nil {
			parent.siblings = append(parent.siblings, q)
		} else {
			return fmt.Errorf("request %d is a sibling of request %d, which never came", a.ID, *a.Parent)
		}
	case e.Adapted != nil:
		q := r.requests[e.Adapted.ID]
		if q == nil || q.adapted != nil || len(q.Adapters) != len(e.Adapted.Adapters) || len(q.Adapters) == 0 {
			return fmt.Errorf("request %d is said to have its adapters, and it never came, has others or had them before", e.Adapted.ID)
		}
		for _, u := range e.Adapted.Adapters {
			if u.Rank < 0 || u.Rank > 1<<16 || u.Bytes < 0 || u.Bytes > 8 || u.From < 0 {
				return fmt.Errorf("request %d has an adapter of rank %d with numbers of %d bytes, which acts from token %d on; such cannot be", q.ID, u.Rank, u.Bytes, u.From)
			}
		}
		q.adapted = e.Adapted
		**events = append(**events, e)
	case e.Left != nil:
		if r.requests[*e.Left] == nil {
			return fmt.Errorf("request %d leaves and never came", *e.Left)
		}
		**events = append(**events, e)
	case e.Scheduled != nil:
		if len(r.steps)-r.stepped == inFlight {
			return errors.New("a step is scheduled while two are in flight: one of them failed, and such cannot be replayed")
		}
		r.steps = append(r.steps, step{schedule: e.Scheduled})
		*events = &r.steps[len(r.steps)-1].during
	case e.Drafted != nil:
		q := r.requests[e.Drafted.ID]
		if q == nil || r.Speculation == nil || len(r.steps) == r.stepped {
			return fmt.Errorf("a draft is recorded for request %d, and the request, a step in flight or the header's settings of speculation are missing", e.Drafted.ID)
		}
		s := &r.steps[len(r.steps)-1]
		s.drafts = append(s.drafts, *e.Drafted)
		return q.drafted(e.Drafted)
	case e.Waits != nil:
		q := r.requests[e.Waits.ID]
		if q == nil || r.Speculation == nil || len(r.steps) == r.stepped {
			return fmt.Errorf("request %d is said to wait for tokens, and the request, a step in flight or the header's settings of speculation are missing", e.Waits.ID)
		}
		q.waitsFor(e.Waits)
	case e.Stopped:
		return errors.New("the drafter failed here and was switched off, and such cannot be replayed")
	case e.Output != nil:
		q := r.requests[e.Output.ID]
		if q == nil {
			return fmt.Errorf("request %d answers and never came", e.Output.ID)
		}
		q.outputs = append(q.outputs, e.Output.StepOutput)
	case e.Stepped != nil:
		if r.stepped == len(r.steps) || *e.Stepped < 0 {
			return errors.New("a step ends that was not scheduled, or took no time")
		}
		s := &r.steps[r.stepped]
		s.took = *e.Stepped
		*events = &s.after
		r.stepped++
	default:
		return errors.New("the line says nothing that is known")
	}
	return nil
}

// waitsFor notes that the request waits for its tokens in flight.
func (q *recorded) waitsFor(w *recording.Waits) {
	if q.waits == nil {
		q.waits = map[int]engine.Wait{}
	}
	if q.waits[w.Known] = engine.WaitApart; w.Batch {
		q.waits[w.Known] = engine.WaitBatch
	}
}

// drafted adds the draft that the request's next step verifies.
func (q *recorded) drafted(d *recording.Drafted) error {
	x := draft.Draft{Tokens: d.Tokens, Parents: d.Parents}
	if n := len(d.Tokens); n < 1 || n > draft.MaxTokens || len(d.Parents) != 0 && len(d.Parents) != n {
		return fmt.Errorf("a draft for request %d has %d tokens and %d parents; 1 to %d tokens are possible", d.ID, n, len(d.Parents), draft.MaxTokens)
	}
	for i, p := range d.Parents {
		if p < -1 || p >= i {
			return fmt.Errorf("token %d of a draft for request %d comes after token %d; -1 to %d is possible", i, d.ID, p, i-1)
		}
	}
	known := len(q.Prompt)
	for _, s := range q.outputs {
		known += len(s.Tokens)
	}
	if q.drafts == nil {
		q.drafts = map[int]draft.Draft{}
	}
	q.drafts[known] = x
	return nil
}
