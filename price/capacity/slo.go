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
	if o.TTFT != 0 && e.TTFT > o.TTFT {
		return fmt.Sprintf("%d sequences wait %.0f ms for a first token, and %.0f ms are promised", e.Batch, e.TTFT*1e3, o.TTFT*1e3)
	}
	return fmt.Sprintf("%d sequences wait %.1f ms between tokens, and %.1f ms are promised", e.Batch, e.ITL*1e3, o.ITL*1e3)
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
