package ref

import (
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

var _ backend.Sampler = (*Device)(nil)

// Draws implements backend.Sampler.
func (d *Device) Draws(*graph.Value, int) bool { return true }

// Draw implements backend.Sampler, by the definition.
func (d *Device) Draw(v *graph.Value, b backend.Buffer, draws []sampling.Draw) error {
	row := make([]float32, v.Axis.Len())
	var made []sampling.Drawn
	for i := range draws {
		if err := d.Read(row, v, b, draws[i].Row, 1); err != nil {
			return err
		}
		fed := int32(0)
		if draws[i].Fed >= 0 {
			fed = d.fed[draws[i].Fed]
		}
		made = append(made, sampling.Plain(&draws[i], row, fed))
	}
	d.drawn = append(d.drawn, made)
	d.fed = d.fed[:0]
	for _, m := range made {
		d.fed = append(d.fed, m.Token)
	}
	return nil
}

// Drawn implements backend.Sampler.
func (d *Device) Drawn(dst []sampling.Drawn) (time.Duration, error) {
	if len(d.drawn) == 0 || dst != nil && len(d.drawn[0]) != len(dst) {
		return 0, fmt.Errorf("ref: %d draws are asked for and no step made so many", len(dst))
	}
	copy(dst, d.drawn[0])
	d.drawn = d.drawn[1:]
	return 0, nil
}

// told is a batch with the tokens that the step before chose in their places.
func (d *Device) told(b *backend.Batch) *backend.Batch {
	if b.Fed == 0 {
		return b
	}
	known := *b
	known.Tokens = append([]int32(nil), b.Tokens...)
	for i, id := range known.Tokens {
		if id < 0 {
			known.Tokens[i] = d.fed[-1-id]
		}
	}
	return &known
}
