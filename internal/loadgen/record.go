package loadgen

import (
	"encoding/json"
	"errors"
	"time"
)

// Record is what one request got. Times are measured where the client is, and TTFT and E2E from when the request was sent, not from
// when it was due: Late tells how far the two are apart.
type Record struct {
	At     time.Duration   // when it was due, since the run began
	Late   time.Duration   // from then to when it was sent
	TTFT   time.Duration   // to the first text of the answer
	Gaps   []time.Duration // between one piece of text and the next
	E2E    time.Duration   // to the end of the answer
	Input  int             // tokens, as the server counts
	Cached int             // of them, found in the server's cache
	Output int             // tokens; pieces, if the server does not say
	Asked  int             // tokens that the answer was to have
	Err    error           // *Failure; nil: the answer came whole
}

// Sent reports whether the request was sent: not, if the run was stopped before.
func (r *Record) Sent() bool { return r.Asked > 0 }

// tpot is the time per output token after the first; 0 for answers of one.
func (r *Record) tpot() time.Duration {
	if r.Output < 2 {
		return 0
	}
	var sum time.Duration
	for _, g := range r.Gaps {
		sum += g
	}
	return sum / time.Duration(r.Output-1)
}

// Failure is a request that did not get what it asked for.
type Failure struct {
	Kind    string // few, so that they can be counted: "status 429", "timed out", …
	Message string
}

// Error implements error.
func (f *Failure) Error() string { return f.Kind + ": " + f.Message }

// kind is the kind of a failure.
func kind(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Kind
	}
	return "other"
}

// written is a Record as JSON, with times in milliseconds.
type written struct {
	At     float64   `json:"at_ms"`
	Late   float64   `json:"late_ms"`
	TTFT   float64   `json:"ttft_ms"`
	E2E    float64   `json:"e2e_ms"`
	Gaps   []float64 `json:"gaps_ms"`
	Input  int       `json:"input_tokens"`
	Cached int       `json:"cached_tokens"`
	Output int       `json:"output_tokens"`
	Asked  int       `json:"asked_tokens"`
	Error  string    `json:"error,omitempty"`
}

// MarshalJSON implements json.Marshaler: times in milliseconds.
func (r *Record) MarshalJSON() ([]byte, error) {
	gaps := make([]float64, len(r.Gaps))
	for i, g := range r.Gaps {
		gaps[i] = ms(g)
	}
	failure := ""
	if r.Err != nil {
		failure = r.Err.Error()
	}
	return json.Marshal(written{ms(r.At), ms(r.Late), ms(r.TTFT), ms(r.E2E), gaps, r.Input, r.Cached, r.Output, r.Asked, failure})
}

// ms is a time in milliseconds, to the microsecond.
func ms(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
