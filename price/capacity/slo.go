package capacity

import "fmt"

// SLO is what a service promises, in seconds; 0 promises nothing.
type SLO struct {
	TTFT float64 `json:"ttft_seconds,omitempty"`
	ITL  float64 `json:"itl_seconds,omitempty"`
}

// Meets reports whether an estimate keeps the promise.
func (o SLO) Meets(e Estimate) bool {
	return (o.TTFT == 0 || e.TTFT <= o.TTFT) && (o.ITL == 0 || e.ITL <= o.ITL)
}

// Missed says in a line what an estimate misses.
func (o SLO) Missed(e Estimate) string {
	who := fmt.Sprintf("%d sequences together wait", e.Batch)
	if e.Batch == 1 {
		who = "one sequence alone waits"
	}
	what, took, promised := "between tokens", e.ITL, o.ITL
	if o.TTFT != 0 && e.TTFT > o.TTFT {
		what, took, promised = "for a first token", e.TTFT, o.TTFT
	}
	return fmt.Sprintf("%s %.4g ms %s, and %.4g ms are promised", who, took*1e3, what, promised*1e3)
}

// Off is how far an estimate is from the promise: 2 where something takes twice as long as promised.
func (o SLO) Off(e Estimate) float64 {
	off := 0.0
	if o.TTFT > 0 {
		off = e.TTFT / o.TTFT
	}
	if o.ITL > 0 {
		off = max(off, e.ITL/o.ITL)
	}
	return off
}

// Best is the estimate with the highest rate among numbers of sequences that fit and keep the promise; false when not even
// one sequence does. More sequences are not always better: a step that is full of answers has no room to read prompts.
func (s *Setup) Best(w Workload, o SLO) (Estimate, bool) {
	var best Estimate
	for n, limit := 1, s.MostUseful(w); n <= limit; n = next(n, limit) {
		if e := s.Estimate(w, n); o.Meets(e) && e.Rate > best.Rate {
			best = e
		}
	}
	return best, best.Batch > 0
}

// MostUseful is the largest number of sequences that is worth trying: that fit, and of which each gets a token in a step.
func (s *Setup) MostUseful(w Workload) int {
	return min(s.MaxBatch(w), s.budget*s.Layout.Pipeline)
}

// next is the next number of sequences to try, an eighth more, and the limit itself before what lies beyond.
func next(n, limit int) int {
	more := n + max(n/8, 1)
	if n < limit && more > limit {
		return limit
	}
	return more
}
