package capacity

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// Workload is the requests to serve, by their lengths in tokens.
type Workload struct {
	Input  int `json:"input"`
	Output int `json:"output"`
}

// Estimate is what a Setup gives when it always has so many sequences under way and prompts are read in chunks between
// the answers' tokens.
type Estimate struct {
	Batch    int     `json:"batch"`               // sequences under way on each copy of the model
	TTFT     float64 `json:"ttft_seconds"`        // to a first token beside the other sequences, without waiting in a queue
	ITL      float64 `json:"itl_seconds"`         // from token to token
	Rate     float64 `json:"output_tokens_per_s"` // of all copies together
	Requests float64 `json:"requests_per_s"`      // likewise
	Dollars  float64 `json:"dollars_per_million"` // output tokens; 0 when the device's price is not known
	Bound    string  `json:"bound"`               // what most of a step's time goes to
	Cache    int64   `json:"cache_bytes"`         // of the sequences at their longest, on the fullest device
}

// MaxBatch is how many sequences fit on each copy at their longest; 0 when not even one does.
func (s *Setup) MaxBatch(w Workload) int {
	if s.Fits(1, w.Input+w.Output) != nil {
		return 0
	}
	return int(s.CacheTokens() / int64(w.Input+w.Output))
}

// MaxContext is the longest sequence that fits alone, as far as the model allows; 0 when the weights do not fit.
func (s *Setup) MaxContext() int {
	return int(min(max(s.CacheTokens(), 0), int64(s.Context)))
}

// Estimate is for batch sequences on each copy.
func (s *Setup) Estimate(w Workload, batch int) Estimate {
	// A pipeline is kept full by as many groups of sequences as it has stages; each step moves one group.
	stages := s.Layout.Pipeline
	group := max((batch+stages-1)/stages, 1)
	step, reading := s.steady(w, group)
	whole, slowest := s.pass(step)
	itl := max(whole, slowest*float64(stages))
	answers := float64(batch)
	if w.Input > 0 && reading < float64(group)*float64(w.Input)/float64(w.Output) {
		// Steps are full of prompts: answers come as fast as prompts are read.
		answers *= reading * float64(w.Output) / (float64(group) * float64(w.Input))
	}
	e := Estimate{Batch: batch, ITL: itl, Rate: answers / itl * float64(s.Layout.Data), TTFT: itl/2 + s.first(w, group)}
	e.Requests = e.Rate / float64(w.Output)
	e.Bound = s.bound(step)
	e.Cache = int64(batch) * int64(w.Input+w.Output) * s.Memory.CacheToken
	if d := s.Device.Dollars; d > 0 {
		e.Dollars = d * float64(s.Layout.Devices()) / (e.Rate * 3600) * 1e6
	}
	return e
}

// steady is the step that a group of sequences repeats: each gets a token at a mean context, and for each that ends a
// prompt is read, a part of it in every step. It also returns how many prompt tokens that is on average.
func (s *Setup) steady(w Workload, group int) (step *graph.Step, reading float64) {
	step = &graph.Step{Logits: group}
	for range group {
		step.Seqs = append(step.Seqs, graph.Seq{New: 1, Past: w.Input + w.Output/2})
	}
	reading = float64(group) * float64(w.Input) / float64(w.Output)
	reading = min(reading, float64(max(s.budget-group, 1)))
	for left := int(math.Round(reading)); left > 0; {
		n := min(left, w.Input)
		step.Seqs = append(step.Seqs, graph.Seq{New: n, Past: (w.Input - n) / 2})
		left -= n
	}
	return step, reading
}

// first is how long a whole prompt takes in chunks that fill the steps of a group. Chunks grow dearer evenly, as they see
// more of the prompt, so the mean of the first and the last is that of all.
func (s *Setup) first(w Workload, group int) float64 {
	chunk := max(s.budget-group, 1)
	count := (w.Input + chunk - 1) / chunk
	at := func(past int) float64 {
		step := &graph.Step{Logits: group}
		for range group - 1 {
			step.Seqs = append(step.Seqs, graph.Seq{New: 1, Past: w.Input + w.Output/2})
		}
		step.Seqs = append(step.Seqs, graph.Seq{New: min(chunk, w.Input-past), Past: past})
		whole, _ := s.pass(step)
		return whole
	}
	last := (count - 1) * chunk
	if count < 3 {
		return at(0) + float64(count-1)*at(last)
	}
	// The last may be cut short; the one before is whole.
	return float64(count-1)*(at(0)+at(last-chunk))/2 + at(last)
}

// bound is what most of a step's time goes to.
func (s *Setup) bound(step *graph.Step) string {
	var by [price.Causes]float64
	for i := range s.stages {
		b := s.stages[i].price.Bill(step)
		for c, t := range b.By {
			by[c] += t
		}
		by[price.ByCommunication] += s.talk(&s.stages[i], step)
	}
	most := price.Cause(0)
	for c := range by {
		if by[c] > by[most] {
			most = price.Cause(c)
		}
	}
	return most.String()
}
