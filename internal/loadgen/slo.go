package loadgen

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// SLO is what an answer must keep to count as good; 0 is no bound.
type SLO struct {
	TTFT time.Duration `json:"ttft,omitempty"` // to the first text
	ITL  time.Duration `json:"itl,omitempty"`  // 95 of 100 gaps between pieces of its text
	TPOT time.Duration `json:"tpot,omitempty"` // average per token after the first
	E2E  time.Duration `json:"e2e,omitempty"`  // to the end
}

// ParseSLO reads "ttft=1s,itl=50ms".
func ParseSLO(text string) (SLO, error) {
	var s SLO
	bounds := map[string]*time.Duration{"ttft": &s.TTFT, "itl": &s.ITL, "tpot": &s.TPOT, "e2e": &s.E2E}
	for bound := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(bound, "=")
		d, err := time.ParseDuration(value)
		if bounds[name] == nil || err != nil || d <= 0 {
			return SLO{}, fmt.Errorf("loadgen: %q is not a bound; ttft, itl, tpot and e2e are possible, such as ttft=1s,itl=50ms", bound)
		}
		*bounds[name] = d
	}
	return s, nil
}

// Set reports whether there is any bound.
func (s SLO) Set() bool { return s != SLO{} }

// String writes the bounds as ParseSLO reads them.
func (s SLO) String() string {
	var all []string
	for _, b := range []struct {
		name  string
		bound time.Duration
	}{{"ttft", s.TTFT}, {"itl", s.ITL}, {"tpot", s.TPOT}, {"e2e", s.E2E}} {
		if b.bound > 0 {
			all = append(all, b.name+"="+b.bound.String())
		}
	}
	return strings.Join(all, ",")
}

// met reports whether an answer kept all bounds.
func (s SLO) met(r *Record) bool {
	within := func(d, bound time.Duration) bool { return bound == 0 || d <= bound }
	itl := Quantile(slices.Sorted(slices.Values(r.Gaps)), 0.95)
	return r.Err == nil && within(r.TTFT, s.TTFT) && within(itl, s.ITL) && within(r.tpot(), s.TPOT) && within(r.E2E, s.E2E)
}
