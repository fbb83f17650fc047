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
	// Bubble is the part of the devices' time in which pipeline stages wait for others, in steady state and while one prompt is read; 0 of one stage.
	Bubble       float64 `json:"bubble,omitempty"`
	PromptBubble float64 `json:"prompt_bubble,omitempty"`
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
	prompt, idle := s.read(w, group)
	e := Estimate{Batch: batch, ITL: itl, Rate: rate / itl * float64(s.Layout.Data), TTFT: itl/2 + prompt, PromptBubble: idle}
	if stages > 1 {
		e.Bubble = 1 - float64(min(stages, max(batch, 1)))*whole/(float64(stages)*itl)
	}
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

// first is how long a whole prompt takes.
func (s *Setup) first(w Workload, group int) float64 {
	took, _ := s.read(w, group)
	return took
}

// mostPieces is the most steps that a prompt is divided into which one would have room for: sched.State divides it likewise.
const mostPieces = 16

// read is how long a whole prompt takes in chunks that fill the steps of a micro-batch or, with pipeline stages, in so many that it is there soonest: while the last stage is at a chunk those before
// it are at the next ones. idle is the part of the stages' time in which they wait for others.
func (s *Setup) read(w Workload, group int) (took, idle float64) {
	most := max(s.budget-group, 1)
	took, idle = s.chunks(w, group, most)
	if s.Layout.Pipeline < 2 {
		return took, 0
	}
	for n := 2; n <= mostPieces && n <= w.Input; n++ {
		if chunk := (w.Input + n - 1) / n; chunk < most {
			if t, i := s.chunks(w, group, chunk); t < took {
				took, idle = t, i
			}
		}
	}
	return took, idle
}

// chunks is how long a prompt takes in chunks of so many tokens. The cost of a chunk grows linearly with the part of the prompt before it, so the mean of the first and the last is that of
// all. The first goes through all stages; each further one is done as long after the one before it as the slowest stage takes.
func (s *Setup) chunks(w Workload, group, chunk int) (took, idle float64) {
	count := (w.Input + chunk - 1) / chunk
	at := func(past int) (whole, slowest float64) {
		step := &graph.Step{Logits: group}
		for range group - 1 {
			step.Seqs = append(step.Seqs, graph.Seq{New: 1, Past: w.Input + w.Output/2})
		}
		step.Seqs = append(step.Seqs, graph.Seq{New: min(chunk, w.Input-past), Past: past})
		s.giveAdapters(step)
		return s.times(step)
	}
	last := (count - 1) * chunk
	whole, slowest := at(0)
	all := whole
	took = whole
	if count > 2 { // the last may be cut short; the one before is whole
		before, slow := at(last - chunk)
		all = float64(count-1) * (whole + before) / 2
		took += float64(count-1)*(slowest+slow)/2 - slowest
	}
	if count > 1 {
		one, slow := at(last)
		all, took = all+one, took+slow
	}
	return took, 1 - all/(took*float64(s.Layout.Pipeline))
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
