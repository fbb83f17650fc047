package capacity

import "fmt"

// SLO is latency limits in seconds; 0 is no limit.
type SLO struct {
	TTFT float64 `json:"ttft_seconds,omitempty"`
	ITL  float64 `json:"itl_seconds,omitempty"`
}

// Meets reports whether an estimate is within the limits.
func (o SLO) Meets(e Estimate) bool {
	return (o.TTFT == 0 || e.TTFT <= o.TTFT) && (o.ITL == 0 || e.ITL <= o.ITL)
}

// Missed is a sentence about the limit that an estimate is over.
func (o SLO) Missed(e Estimate) string {
	batch := fmt.Sprintf("%d sequences", e.Batch)
	if e.Batch == 1 {
		batch = "one sequence"
	}
	what, took, limit := "ITL", e.ITL, o.ITL
	if o.TTFT != 0 && e.TTFT > o.TTFT {
		what, took, limit = "TTFT", e.TTFT, o.TTFT
	}
	return fmt.Sprintf("%.4g ms %s with %s, over the %.4g ms %s limit", took*1e3, what, batch, limit*1e3, what)
}

// Off is the largest ratio of an estimate to its limit: 2 where something takes twice as long as the limit.
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

// Best is the estimate with the highest rate among batch sizes that fit and meet the SLO; false when not even one sequence
// does. A larger batch is not always faster: a step full of decoding sequences leaves no tokens for prefill.
func (s *Setup) Best(w Workload, o SLO) (Estimate, bool) {
	var best Estimate
	for n, limit := 1, s.MostUseful(w); n <= limit; n = next(n, limit) {
		if e := s.Estimate(w, n); o.Meets(e) && e.Rate > best.Rate {
			best = e
		}
	}
	return best, best.Batch > 0
}

// MostUseful is the largest batch worth trying: it fits, and a step has a token for each of its sequences.
func (s *Setup) MostUseful(w Workload) int {
	return min(s.MaxBatch(w), s.budget*s.Layout.Pipeline)
}

// next is the next batch size to try: an eighth more, and at most limit.
func next(n, limit int) int {
	more := n + max(n/8, 1)
	if n < limit && more > limit {
		return limit
	}
	return more
}
