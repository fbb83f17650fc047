package ref

import (
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

var _ backend.Sampler = (*Device)(nil)

// CanSample implements backend.Sampler.
func (d *Device) CanSample(*graph.Value, int) bool { return true }

// Sample implements backend.Sampler, by the definition.
func (d *Device) Sample(v *graph.Value, b backend.Buffer, samples []sampling.Sample) error {
	row := make([]float32, v.Axis.Len())
	var results []sampling.Result
	for i := range samples {
		if err := d.Read(row, v, b, samples[i].Row, 1); err != nil {
			return err
		}
		future := int32(0)
		if samples[i].Future >= 0 {
			future = d.sampled[samples[i].Future]
		}
		results = append(results, sampling.Reference(&samples[i], row, future))
	}
	d.results = append(d.results, results)
	d.sampled = d.sampled[:0]
	for _, r := range results {
		d.sampled = append(d.sampled, r.Token)
	}
	return nil
}

// SampleResults implements backend.Sampler.
func (d *Device) SampleResults(dst []sampling.Result) (time.Duration, error) {
	if len(d.results) == 0 || dst != nil && len(d.results[0]) != len(dst) {
		return 0, fmt.Errorf("ref: the results of %d samples are asked for; no step took so many", len(dst))
	}
	copy(dst, d.results[0])
	d.results = d.results[1:]
	return 0, nil
}

// resolve is a batch with the tokens that the previous step sampled in place of their placeholders.
func (d *Device) resolve(b *backend.Batch) *backend.Batch {
	if b.FutureTokens == 0 {
		return b
	}
	known := *b
	known.Tokens = append([]int32(nil), b.Tokens...)
	for i, id := range known.Tokens {
		if id < 0 {
			known.Tokens[i] = d.sampled[-1-id]
		}
	}
	return &known
}
