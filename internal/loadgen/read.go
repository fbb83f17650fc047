package loadgen

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"
)

// ReadReport reads the report that ridge bench serve -o wrote.
func ReadReport(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("loadgen: %w", err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("loadgen: %s is not a report such as ridge bench serve -o writes: %w", path, err)
	}
	if len(r.Records) == 0 {
		return nil, fmt.Errorf("loadgen: %s has no per_request; a report of ridge bench serve -o has every request's times", path)
	}
	return &r, nil
}

// UnmarshalJSON implements json.Unmarshaler: what MarshalJSON writes.
func (r *Record) UnmarshalJSON(data []byte) error {
	var x written
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	*r = Record{At: duration(x.At), Late: duration(x.Late), TTFT: duration(x.TTFT), E2E: duration(x.E2E), Input: x.Input, Cached: x.Cached, Output: x.Output, Asked: x.Asked}
	for _, g := range x.Gaps {
		r.Gaps = append(r.Gaps, duration(g))
	}
	if x.Error != "" {
		r.Err = &Failure{Kind: "other", Message: x.Error}
	}
	return nil
}

// duration is so many milliseconds.
func duration(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
