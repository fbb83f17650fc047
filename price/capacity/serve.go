package capacity

import (
	"math"
	"sort"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/price"
)

// Workload is the requests to serve, by their lengths in tokens.
type Workload struct {
	Input  int `json:"input"`
	Output int `json:"output"`
}

// Estimate is the performance of a Setup in steady state, with Batch sequences running and chunked prefill beside decoding.
type Estimate struct {
	Batch    int     `json:"batch"`               // running sequences on each replica
	TTFT     float64 `json:"ttft_seconds"`        // to a first token beside the other sequences, without queueing
	ITL      float64 `json:"itl_seconds"`         // from token to token
	Rate     float64 `json:"output_tokens_per_s"` // of all replicas together
	Requests float64 `json:"requests_per_s"`      // likewise
	Dollars  float64 `json:"dollars_per_million"` // output tokens; 0 when the device's price is not known
	Bound    string  `json:"bound"`               // what most of a step's time goes to
	Cache    int64   `json:"cache_bytes"`         // of the sequences at their longest, on the device with the most
}

// MaxBatch is how many sequences fit on each replica at their longest; 0 when not even one does.
func (s *Setup) MaxBatch(w Workload) int {
	tokens := w.Input + w.Output
	if s.Fits(1, tokens) != nil {
		return 0
	}
	free := s.Usable - s.Memory.Fixed()
	return sort.Search(maxStep, func(n int) bool { return s.CacheBytes(n+1, tokens) > free })
}

// MaxContext is the longest sequence that fits alone, as far as the model allows; 0 when the weights do not fit.
func (s *Setup) MaxContext() int {
	free := s.Usable - s.Memory.Fixed()
	return sort.Search(s.Context, func(n int) bool { return s.CacheBytes(1, n+1) > free })
}

// Estimate is for batch sequences on each replica.
func (s *Setup) Estimate(w Workload, batch int) Estimate {
	// A full pipeline has as many micro-batches in flight as it has stages; each step moves one of them.
	stages := s.Layout.Pipeline
	group := max((batch+stages-1)/stages, 1)
	step, prefill := s.steady(w, group)
	whole, slowest := s.times(step)
	itl := max(whole, slowest*float64(stages))
	rate := float64(batch)
	if w.Input > 0 && prefill < float64(group)*float64(w.Input)/float64(w.Output) {
		// Prefill fills the steps: the output rate is bound by it.
		rate *= prefill * float64(w.Output) / (float64(group) * float64(w.Input))
	}
	e := Estimate{Batch: batch, ITL: itl, Rate: rate / itl * float64(s.Layout.Data), TTFT: itl/2 + s.first(w, group)}
	e.Requests = e.Rate / float64(w.Output)
	e.Bound = s.bound(step)
	e.Cache = s.CacheBytes(batch, w.Input+w.Output)
	if d := s.Device.Dollars; d > 0 {
		e.Dollars = d * float64(s.Layout.Devices()) / (e.Rate * 3600) * 1e6
	}
	return e
}

// steady is the step that a micro-batch repeats: each sequence decodes a token at the mean context, and for each that ends a new
// prompt is prefilled, a part of it in every step. It also returns how many prompt tokens a step has on average.
func (s *Setup) steady(w Workload, group int) (step *graph.Step, prefill float64) {
	step = &graph.Step{Logits: group}
	for range group {
		step.Seqs = append(step.Seqs, graph.Seq{New: 1, Past: w.Input + w.Output/2})
	}
	prefill = float64(group) * float64(w.Input) / float64(w.Output)
	prefill = min(prefill, float64(max(s.budget-group, 1)))
	for left := int(math.Round(prefill)); left > 0; {
		n := min(left, w.Input)
		step.Seqs = append(step.Seqs, graph.Seq{New: n, Past: (w.Input - n) / 2})
		left -= n
	}
	s.giveAdapters(step)
	return step, prefill
}

// giveAdapters gives the sequences of a step the adapters in turn.
func (s *Setup) giveAdapters(step *graph.Step) {
	n := s.adapters.Slots
	for slot := range min(n, len(step.Seqs)) {
		for seq := slot; seq < len(step.Seqs); seq += n {
			step.Adapters = append(step.Adapters, graph.StepAdapter{Seq: seq, Slot: slot, Rank: s.adapters.Rank, Bytes: adapterBytes})
		}
	}
}

// first is how long a whole prompt takes in chunks that fill the steps of a micro-batch. The cost of a chunk grows linearly with
// the part of the prompt before it, so the mean of the first and the last is that of all.
func (s *Setup) first(w Workload, group int) float64 {
	chunk := max(s.budget-group, 1)
	count := (w.Input + chunk - 1) / chunk
	at := func(past int) float64 {
		step := &graph.Step{Logits: group}
		for range group - 1 {
			step.Seqs = append(step.Seqs, graph.Seq{New: 1, Past: w.Input + w.Output/2})
		}
		step.Seqs = append(step.Seqs, graph.Seq{New: min(chunk, w.Input-past), Past: past})
		s.giveAdapters(step)
		whole, _ := s.times(step)
		return whole
	}
	last := (count - 1) * chunk
	if count < 3 {
		return at(0) + float64(count-1)*at(last)
	}
	// The last may be cut short; the one before is whole.
	return float64(count-1)*(at(0)+at(last-chunk))/2 + at(last)
}

// bound is the cause of most of a step's time.
func (s *Setup) bound(step *graph.Step) string {
	var by [price.Causes]float64
	for i := range s.stages {
		b := s.stages[i].price.Breakdown(step)
		for c, t := range b.By {
			by[c] += t
		}
	}
	most := price.Cause(0)
	for c := range by {
		if by[c] > by[most] {
			most = price.Cause(c)
		}
	}
	return most.String()
}
