package simulate

import (
	"errors"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

// samplingDevice is a device that samples tokens itself (backend.Sampler), so that the engine launches steps ahead. The time of a step
// passes when its results are waited for.
type samplingDevice struct {
	*device
	launched []time.Duration // what each step in flight takes, the oldest first
}

// Run implements backend.Device.
func (d *samplingDevice) Run(_ []backend.Launch, b *backend.Batch) error {
	took, err := d.price(b)
	if err != nil {
		return err
	}
	d.launched = append(d.launched, took)
	if d.given != nil {
		d.given()
	}
	return nil
}

// CanSample implements backend.Sampler.
func (d *samplingDevice) CanSample(*graph.Value, int) bool { return true }

// Sample implements backend.Sampler: outputs are forced.
func (d *samplingDevice) Sample(*graph.Value, backend.Buffer, []sampling.Sample) error { return nil }

// SampleResults implements backend.Sampler.
func (d *samplingDevice) SampleResults([]sampling.Result) (time.Duration, error) {
	if len(d.launched) == 0 {
		return 0, errors.New("simulate: results are waited for and no step is in flight")
	}
	took := d.launched[0]
	d.launched = append(d.launched[:0], d.launched[1:]...)
	d.pass(took)
	return took, nil
}
