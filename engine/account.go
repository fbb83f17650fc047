package engine

import (
	"time"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// Account is where a request's time went, from Submit to Done; the parts add up to all of it. A request's part of a step
// that it shared is what the step would have taken for it alone; the rest counts as other requests'.
type Account struct {
	Queue         time.Duration               // before its first step
	Preempted     time.Duration               // without its pages, which others had
	OtherRequests time.Duration               // others' part of its steps, and steps that it had no part in
	Host          time.Duration               // between steps: scheduling, sampling, handing out
	Prefill       [price.Causes]time.Duration // its part of the steps before its first token, by what they waited for
	Decode        [price.Causes]time.Duration // and of those after it
}

// Sum is all the time.
func (a *Account) Sum() time.Duration {
	sum := a.Queue + a.Preempted + a.OtherRequests + a.Host
	for i := range a.Prefill {
		sum += a.Prefill[i] + a.Decode[i]
	}
	return sum
}

// Explainer is a Predictor that also knows what the time of a step is spent on, in seconds.
type Explainer interface {
	Explain(*graph.Step) [price.Causes]float64
}

// accounting is what a request's account is kept with.
type accounting struct {
	Account
	until     time.Time // to which it is complete
	step      int64     // the last that it took part in, counted from 1; 0: none
	preempted bool      // since then
}

// explain divides the time since the previous step among the requests of the step that the device has just done. Without an
// Explainer all a device does counts as arithmetic.
func (e *Engine) explain(f *InFlight, began time.Time) {
	device := f.ready.Sub(f.launched)
	f.batch.Step(&f.size)
	whole := e.shares(&f.size, device)
	for i := range f.requests {
		r := f.requests[i].request
		if r.ended {
			continue
		}
		r.wait(began, f.launched, e.stats.Steps)
		e.alone.Seqs = append(e.alone.Seqs[:0], f.size.Seqs[i])
		e.alone.Logits = min(f.size.Logits, 1)
		own := e.shares(&e.alone, device)
		to := &r.account.Prefill
		if r.output > 0 {
			to = &r.account.Decode
		}
		left := device
		for c := range own {
			part := min(time.Duration(own[c]/max(whole.sum(), own.sum())*float64(device)), left)
			to[c] += part
			left -= part
		}
		r.account.OtherRequests += left
		r.account.until, r.account.step, r.account.preempted = f.ready, e.stats.Steps+1, false
	}
}

// shares is what the device's time of a step is spent on, in proportion.
type shares [price.Causes]float64

func (s *shares) sum() float64 {
	sum := 0.0
	for _, x := range s {
		sum += x
	}
	return sum
}

func (e *Engine) shares(s *graph.Step, device time.Duration) (by shares) {
	if x, ok := e.predictor.(Explainer); ok {
		by = x.Explain(s)
		by[price.ByHost] = 0 // is measured
	}
	if !(by.sum() > 0) {
		by = shares{price.ByCompute: device.Seconds()}
	}
	return by
}

// wait accounts for the time before a step that was launched then: steps is how many there were before it.
func (r *request) wait(began, launched time.Time, steps int64) {
	a := &r.account
	gap := max(launched.Sub(a.until), 0)
	host := min(max(launched.Sub(began), 0), gap)
	switch {
	case a.step == 0:
		a.Queue += gap - host
		a.Host += host
	case a.preempted:
		a.Preempted += gap
	case a.step == steps: // it took part in the one before
		a.Host += gap
	default:
		a.OtherRequests += gap
	}
}

// close ends the account.
func (a *accounting) close(now time.Time) Account {
	rest := max(now.Sub(a.until), 0)
	if a.step == 0 {
		a.Queue += rest
	} else {
		a.Host += rest
	}
	return a.Account
}
