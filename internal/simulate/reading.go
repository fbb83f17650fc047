package simulate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ridge-llm/ridge/engine"
)

// Recording is a recorded run of an engine.
type Recording struct {
	Header
	steps    []step
	requests map[int64]*recorded
	order    []int64 // of admission
}

// step is what was recorded of one step.
type step struct {
	before   []event // that the engine saw before it scheduled the step, or while the one before ran: see during
	during   []event // while the step ran, after it was scheduled
	schedule *decision
	took     time.Duration
}

// recorded is a request with its whole answer.
type recorded struct {
	admitted
	outputs []engine.StepOutput
}

// maxLine bounds a line of a recording: a prompt of ten million tokens fits.
const maxLine = 128 << 20

// ReadRecording reads a recording. What was cut off at its end, because the server was killed, does not count.
func ReadRecording(name string, in io.Reader) (*Recording, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	r := &Recording{requests: map[int64]*recorded{}}
	bad := func(line int, err error) error {
		return fmt.Errorf("simulate: %s, line %d: %w; a recording is what ridge serve --record writes", name, line, err)
	}
	var now step
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			if err := r.readHeader(lines.Bytes()); err != nil {
				return nil, bad(n, err)
			}
			continue
		}
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || !lines.Scan() {
				break // the last line, half written
			}
			return nil, bad(n, err)
		}
		if err := r.take(&now, e); err != nil {
			return nil, bad(n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("simulate: %s: %w", name, err)
	}
	if r.Version == 0 {
		return nil, bad(1, errors.New("the file is empty"))
	}
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
	case r.Version != version:
		return fmt.Errorf("the recording's version is %d, and %d is read", r.Version, version)
	case r.Vocab < 1 || r.Vocab > 1<<24 || l.Tokens < 1 || l.Seqs < 1 || l.Logits < 1 || l.Pages < 1 || l.PageSize < 1 || l.SeqPages < 1 || l.SwapPages < 0 || l.SwapPages > 1<<28 ||
		l.Tokens > 1<<24 || l.Logits > 1<<16 || l.Pages > 1<<28 || l.PageSize > 1<<16 || l.SeqPages > 1<<28:
		return fmt.Errorf("a vocabulary of %d and limits of %+v cannot be", r.Vocab, l)
	}
	return nil
}

// take adds an event; now is the step that is not complete yet.
func (r *Recording) take(now *step, e event) error {
	switch {
	case e.Admitted != nil:
		a := *e.Admitted
		switch {
		case r.requests[a.ID] != nil:
			return fmt.Errorf("request %d is admitted twice", a.ID)
		case a.Hidden:
			return fmt.Errorf("request %d asks for embeddings, and such cannot be replayed", a.ID)
		case len(a.Prompt) == 0 || a.MaxTokens < 1:
			return fmt.Errorf("request %d has a prompt of %d tokens and an answer of at most %d", a.ID, len(a.Prompt), a.MaxTokens)
		}
		r.requests[a.ID] = &recorded{admitted: a}
		r.order = append(r.order, a.ID)
		now.add(e)
	case e.Left != nil:
		if r.requests[*e.Left] == nil {
			return fmt.Errorf("request %d leaves and never came", *e.Left)
		}
		now.add(e)
	case e.Scheduled != nil:
		if now.schedule != nil {
			return errors.New("a step is scheduled before the one before has ended")
		}
		now.schedule = e.Scheduled
	case e.Output != nil:
		q := r.requests[e.Output.ID]
		if q == nil {
			return fmt.Errorf("request %d answers and never came", e.Output.ID)
		}
		q.outputs = append(q.outputs, e.Output.StepOutput)
	case e.Stepped != nil:
		if now.schedule == nil || *e.Stepped < 0 {
			return errors.New("a step ends that was not scheduled, or took no time")
		}
		now.took = *e.Stepped
		r.steps = append(r.steps, *now)
		*now = step{}
	default:
		return errors.New("the line says nothing that is known")
	}
	return nil
}

// add puts an event before or into the step, by whether it is scheduled.
func (s *step) add(e event) {
	if s.schedule == nil {
		s.before = append(s.before, e)
	} else {
		s.during = append(s.during, e)
	}
}
