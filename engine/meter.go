package engine

import (
	"time"

	"github.com/ridge-llm/ridge/engine/account"
	"github.com/ridge-llm/ridge/engine/predict"
)

// meter measures what steps take and bring.
type meter struct {
	clock
	times   *predict.Times  // of steps to come
	divider account.Divider // of steps' time among requests
	ready   time.Time       // when the device had done the last step collected
	ended   time.Time       // when that step had ended; zero after the engine had nothing to do
	long    bool            // the device took long for it
	gap     float64         // for how long the device has nothing to do before a step that is not launched ahead, drafting apart, s: an average that forgets
	stats   Stats
	history *history
}

func newMeter(o Options, h *history) meter {
	return meter{clock: newClock(o.Clock), times: predict.New(o.Predictor), divider: account.NewDivider(o.Predictor), history: h}
}

// longStep is how long a step must be for the goroutines that pass its tokens on to be let onto the processor: behind longer ones they
// would come late by the 10 ms after which Go takes a processor away. Short steps leave them gaps enough, and would be held up.
const longStep = 2 * time.Millisecond

// began is when the step that is due began: at the end of the previous one, where there was one, so that what lies between two
// steps, when other goroutines run, counts too. A request that waits for tokens waits for it.
func (m *meter) began() time.Time {
	if m.ended.IsZero() {
		return m.now()
	}
	return m.ended
}

// idle notes that no step follows the last.
func (m *meter) idle() { m.ended = time.Time{} }

// waited notes that a step was launched when the one before had been collected, after drafting for so long.
func (m *meter) waited(launched time.Time, drafting time.Duration) {
	if m.ended.IsZero() {
		return
	}
	m.gap += forget * (max(0, launched.Sub(m.ready)-drafting).Seconds() - m.gap)
}

// deviceDone notes that the device has done a step.
func (m *meter) deviceDone(f *InFlight) {
	if f.launched.Before(m.ready) { // the device was still at the previous step
		f.launched = m.ready
	}
	f.ready = m.now()
	m.ready, m.long = f.ready, f.ready.Sub(f.launched) > longStep
}

// charge divides the time since the previous step among the step's requests.
func (m *meter) charge(f *InFlight, began time.Time) {
	f.batch.Step(&f.size)
	m.divider.Begin(account.Step{Number: m.stats.Steps + 1, Size: &f.size, Began: began, Launched: f.launched, Ready: f.ready, Idle: f.idle})
	for i := range f.requests {
		if r := f.requests[i].request; !r.ended {
			m.divider.Charge(&r.ledger, i, r.output > 0)
		}
	}
}

// stepDone notes the end of a step, which began then, and has it observed.
func (m *meter) stepDone(f *InFlight, began time.Time) (took time.Duration) {
	m.ended = m.now()
	took = m.ended.Sub(began)
	host := max(took-f.worked, 0)
	predicted := time.Duration(m.times.Observe(&f.size, max(took-f.drafting, 0)) * float64(time.Second)) // drafters have prices of their own
	step := f.drafts
	for i := range f.outputs {
		step.AcceptedTokens += f.outputs[i].accepted
	}
	step.At, step.Requests, step.Tokens, step.Logits, step.Rows = m.ended.Sub(m.started), len(f.size.Seqs), f.size.Tokens(), f.size.Logits, int(f.size.CtxRows(0))
	step.Predicted, step.Actual, step.Host = predicted, took, host
	m.history.put(step)
	m.stats.record(len(f.batch.Tokens), took, host)
	return took
}
