package calibrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/price"
)

// A measurement that other programs disturbed is repeated once, unless it would take more than ten seconds in all.
const (
	attempts    = 2
	repeatAfter = 5 * time.Second
)

// Measure makes the profile of a device in a few seconds, and once more if other programs used the CPUs meanwhile. If they still did,
// disturbed and the profile's Source say so: the device looks slower than it is. report is called with what is being measured; when ctx ends, it is left at that, within a tenth of a second or, while peaks are measured, a second.
func Measure(ctx context.Context, dev backend.Device, report func(string)) (p *price.Profile, disturbed string, err error) {
	start := time.Now()
	for n := range attempts {
		disturbed, err = alone(dev.Info().Threads, func() error {
			p, err = measure(ctx, dev, report)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		if disturbed == "" {
			return p, "", nil
		}
		if n+1 == attempts || time.Since(start) > repeatAfter {
			break
		}
		report("again, since " + disturbed + " meanwhile")
	}
	p.Source += ", while " + disturbed
	return p, disturbed, nil
}

// measure makes the profile once.
func measure(ctx context.Context, dev backend.Device, report func(string)) (*price.Profile, error) {
	report("peaks and memory")
	p, err := peaks(dev)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	var samples []price.Sample
	for _, part := range []struct {
		name string
		time func(context.Context, backend.Device, []price.Sample) ([]price.Sample, error)
	}{{"products", products}, {"rows", rows}, {"attention", attention}, {"adapters", adapters}} {
		report(part.name)
		if samples, err = part.time(ctx, dev, samples); err != nil {
			return nil, err
		}
	}
	report("products from memory")
	if samples, err = farProducts(ctx, dev, p, samples); err != nil {
		return nil, err
	}
	if p.Fit, err = p.FitSamples(samples); err != nil {
		return nil, err
	}
	report("whole steps")
	if err := errors.Join(wholeSteps(ctx, dev, p), logits(ctx, dev, p)); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// peaks is the profile without its fit.
func peaks(dev backend.Device) (*price.Profile, error) {
	m, ok := dev.(backend.Measurer)
	if !ok {
		return nil, fmt.Errorf("calibrate: device %s cannot measure itself", dev.Info().Name)
	}
	peak, err := m.Peaks()
	if err != nil {
		return nil, err
	}
	i := dev.Info()
	p := &price.Profile{
		Name: i.Name, Title: i.Detail, Source: "measured by ridge calibrate",
		FLOPs: map[price.Number]float64{}, Act: i.Act.String(), Q8: i.Q8, RoundBF16: i.BF16, Kernels: i.Kernels, Replays: i.Replays, RowTiles: i.RowTiles, Attention: price.F32,
	}
	for n, rate := range map[price.Number]float64{price.F32: peak.F32, price.BF16: peak.BF16, price.Int8: peak.Int8, price.FP8: peak.FP8} {
		if rate > 0 {
			p.FLOPs[n] = rate
		}
	}
	if p.FLOPs[price.F32] == 0 { // a GPU, of which only products were measured
		p.FLOPs[price.F32] = peak.BF16 / bf16PerF32
		p.Attention = price.BF16
	}
	if l, ok := dev.(backend.LevelMeasurer); ok {
		caches, err := l.Caches()
		if err != nil {
			return nil, err
		}
		for _, c := range caches {
			p.Levels = append(p.Levels, price.Level{Name: c.Name, Bytes: c.Bytes, Rate: c.Read})
		}
	}
	if i.Memory == 0 {
		i.Memory = assumedMemory
		p.Source += fmt.Sprintf("; the memory's size is not known and taken to be %d GiB", assumedMemory>>30)
	}
	p.Levels = append(p.Levels, price.Level{Name: "memory", Bytes: i.Memory, Rate: peak.Read})
	return p, nil
}

// assumedMemory is the memory of a machine whose size is unknown, in bytes.
const assumedMemory = 16 << 30

// bf16PerF32 is the ratio of tensor-core to FP32 throughput on Hopper (989 to 67 TFLOP/s).
const bf16PerF32 = 15
