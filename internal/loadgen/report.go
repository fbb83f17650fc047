package loadgen

import (
	"math"
	"slices"
	"time"
)

// Report is what a run measured. As JSON, times are in milliseconds and rates per second.
type Report struct {
	URL         string  `json:"url"`
	Model       string  `json:"model"`
	Trace       string  `json:"trace"`
	Concurrency int     `json:"concurrency,omitempty"` // of a closed loop
	Seed        uint64  `json:"seed"`
	Seconds     float64 `json:"seconds"` // from the first request's time to the last answer's end

	Requests  int            `json:"requests"` // of the trace
	Completed int            `json:"completed"`
	Unsent    int            `json:"unsent,omitempty"` // the run was stopped before
	Short     int            `json:"short"`            // answers of fewer tokens than asked for
	Errors    map[string]int `json:"errors,omitempty"`
	Example   string         `json:"example_error,omitempty"`

	Input       int     `json:"input_tokens"`
	Cached      int     `json:"cached_tokens"`
	Output      int     `json:"output_tokens"`
	RequestRate float64 `json:"requests_per_second"`
	InputRate   float64 `json:"input_tokens_per_second"`
	OutputRate  float64 `json:"output_tokens_per_second"`
	PieceTokens float64 `json:"tokens_per_piece"` // more than 1: the server sends some tokens together, and ITL is between pieces

	TTFT Summary `json:"ttft_ms"`
	ITL  Summary `json:"itl_ms"`
	TPOT Summary `json:"tpot_ms"`
	E2E  Summary `json:"e2e_ms"`
	Late Summary `json:"late_ms"` // of the generator itself; in a closed loop it cannot be late

	Goodput *Goodput `json:"goodput,omitempty"`
	Records []Record `json:"per_request"`
}

// Goodput is what was answered within bounds.
type Goodput struct {
	SLO      string  `json:"slo"`
	Met      int     `json:"met"`
	Fraction float64 `json:"fraction"` // of all requests sent
	Rate     float64 `json:"requests_per_second"`
}

// Summary is a distribution, in milliseconds.
type Summary struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Quantile is the smallest value that a fraction q of all are not above (nearest rank); 0 of none. The values are in order.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

func summarize(values []time.Duration) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	slices.Sort(values)
	var sum float64
	for _, v := range values {
		sum += ms(v)
	}
	at := func(q float64) float64 { return ms(Quantile(values, q)) }
	return Summary{sum / float64(len(values)), at(0.5), at(0.9), at(0.95), at(0.99), at(1)}
}

// NewReport sums up what the requests of a trace got in a run that took so long.
func NewReport(o Options, model string, records []Record, took time.Duration) *Report {
	r := &Report{URL: o.URL, Model: model, Trace: o.Trace.Name, Concurrency: o.Concurrency, Seed: o.Seed, Seconds: max(took.Seconds(), 1e-9),
		Requests: len(records), Errors: map[string]int{}, Records: records}
	var ttft, itl, tpot, e2e, late []time.Duration
	gaps := 0
	for i := range records {
		gaps += len(records[i].Gaps)
	}
	itl = make([]time.Duration, 0, gaps) // millions, of a long trace
	met, pieces := 0, 0
	for i := range records {
		x := &records[i]
		if !x.Sent() {
			r.Unsent++
			continue
		}
		late = append(late, x.Late)
		if x.Err != nil {
			if r.Errors[kind(x.Err)]++; r.Example == "" {
				r.Example = x.Err.Error()
			}
			continue
		}
		r.Completed++
		r.Input, r.Cached, r.Output = r.Input+x.Input, r.Cached+x.Cached, r.Output+x.Output
		if x.Output < x.Asked {
			r.Short++
		}
		ttft, e2e, itl = append(ttft, x.TTFT), append(e2e, x.E2E), append(itl, x.Gaps...)
		pieces += len(x.Gaps) + 1
		if x.Output > 1 {
			tpot = append(tpot, x.tpot())
		}
		if o.SLO.met(x) {
			met++
		}
	}
	r.RequestRate, r.InputRate, r.OutputRate = float64(r.Completed)/r.Seconds, float64(r.Input)/r.Seconds, float64(r.Output)/r.Seconds
	r.PieceTokens = float64(r.Output) / float64(max(pieces, 1))
	r.TTFT, r.ITL, r.TPOT, r.E2E, r.Late = summarize(ttft), summarize(itl), summarize(tpot), summarize(e2e), summarize(late)
	if o.SLO.Set() {
		sent := max(r.Requests-r.Unsent, 1)
		r.Goodput = &Goodput{o.SLO.String(), met, float64(met) / float64(sent), float64(met) / r.Seconds}
	}
	return r
}

// Lost is how many requests were sent and did not get their answer.
func (r *Report) Lost() int { return r.Requests - r.Unsent - r.Completed }
