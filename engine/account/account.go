// Package account says where requests' time goes: each step's is divided among its requests, and the time between steps is kept apart.
package account

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

	// Idle is how long stages of a pipeline had no step at all while the request's steps were computed: its share of the stages. It is in the parts above.
	Idle time.Duration
}

// Sum is all the time.
func (a *Account) Sum() time.Duration {
	sum := a.Queue + a.Preempted + a.OtherRequests + a.Host
	for i := range a.Prefill {
		sum += a.Prefill[i] + a.Decode[i]
	}
	return sum
}

// Ledger keeps a request's Account.
type Ledger struct {
	account   Account
	until     time.Time // to which it is complete
	step      int64     // the last that the request took part in, counted from 1; 0: none
	preempted bool      // since then
}

// Open is the ledger of a request that has come now.
func Open(now time.Time) Ledger { return Ledger{until: now} }

// Preempt notes that the request has lost its pages.
func (l *Ledger) Preempt() { l.preempted = true }

// Close ends the account.
func (l *Ledger) Close(now time.Time) Account {
	rest := max(now.Sub(l.until), 0)
	if l.step == 0 {
		l.account.Queue += rest
	} else {
		l.account.Host += rest
	}
	return l.account
}

// wait accounts for the time before a step.
func (l *Ledger) wait(s *Step) {
	a := &l.account
	gap := max(s.Launched.Sub(l.until), 0)
	host := min(max(s.Launched.Sub(s.Began), 0), gap)
	switch {
	case l.step == 0:
		a.Queue += gap - host
		a.Host += host
	case l.preempted:
		a.Preempted += gap
	case l.step == s.Number-1: // it took part in the previous one
		a.Host += gap
	default:
		a.OtherRequests += gap
	}
}

// Explainer knows what the time of a step is spent on, in seconds.
type Explainer interface {
	Explain(*graph.Step) [price.Causes]float64
}

// Step is one that the device has done.
type Step struct {
	Number   int64 // counted from 1
	Size     *graph.Step
	Began    time.Time // when the previous one had ended
	Launched time.Time // when the device began it
	Ready    time.Time // when the device had done it
	Idle     float64   // the part of a pipeline's stages that had no step
}

// Divider divides the time of steps among their requests. Without an Explainer all that a device does counts as arithmetic.
type Divider struct {
	explainer Explainer
	step      Step
	whole     shares
	alone     graph.Step // of one of its requests
}

// NewDivider goes by what explains the time of steps, if it is an Explainer.
func NewDivider(by any) Divider {
	x, _ := by.(Explainer)
	return Divider{explainer: x}
}

// Begin begins with a step; Charge follows for each of its requests.
func (d *Divider) Begin(s Step) {
	d.step = s
	d.whole = d.shares(s.Size)
}

// Charge accounts for the time since the request's last step and for its part of this one, in which it is sequence i. Its first token
// has come before if it is decoding.
func (d *Divider) Charge(l *Ledger, i int, decoding bool) {
	s := &d.step
	l.wait(s)
	d.alone.Seqs = append(d.alone.Seqs[:0], s.Size.Seqs[i])
	d.alone.Logits = min(s.Size.Logits, 1)
	own := d.shares(&d.alone)
	to := &l.account.Prefill
	if decoding {
		to = &l.account.Decode
	}
	device := s.Ready.Sub(s.Launched)
	left := device
	for c := range own {
		part := min(time.Duration(own[c]/max(d.whole.sum(), own.sum())*float64(device)), left)
		to[c] += part
		left -= part
	}
	l.account.OtherRequests += left
	l.account.Idle += time.Duration(s.Idle * float64(device))
	l.until, l.step, l.preempted = s.Ready, s.Number, false
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

func (d *Divider) shares(size *graph.Step) (by shares) {
	if d.explainer != nil {
		by = d.explainer.Explain(size)
		by[price.ByHost] = 0 // is measured
	}
	if !(by.sum() > 0) {
		by = shares{price.ByCompute: max(d.step.Ready.Sub(d.step.Launched).Seconds(), 1e-9)} // never 0 of 0
	}
	return by
}
