package cuda

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

const (
	peakBytes = 1 << 30 // copied to measure the memory: far more than the L2 cache
	peakSize  = 8192    // rows, columns and depth of the product that measures the tensor cores
	peakRuns  = 8
)

// Peaks implements backend.Measurer: the memory's rate is that of a copy, read and written bytes counted; the other rates those of
// the largest products, of random numbers, which run slower than zeros.
func (d *Device) Peaks() (backend.Peaks, error) {
	var p backend.Peaks
	err := d.do(func() error {
		a, err := d.noise(peakBytes)
		if err != nil {
			return err
		}
		defer d.drop(a)
		b, err := d.alloc(peakBytes, "measuring")
		if err != nil {
			return err
		}
		defer d.drop(b)
		took, err := d.fastest(func() error { return d.stream.Copy(b, a, peakBytes) })
		if err != nil {
			return err
		}
		p.Read = 2 * peakBytes / took.Seconds()
		if !d.hopper() {
			return nil
		}
		for t, rate := range map[graph.Type]*float64{graph.BF16: &p.BF16, graph.F8: &p.FP8, graph.I8: &p.Int8} {
			w := densesm90.Weight{W: a + peakSize*peakSize*2, Scale: a, Y: b, N: peakSize}
			k, err := densesm90.New(d.loader, densesm90.Problem{Type: t, X: a, XScale: a, Rows: peakSize, K: peakSize, Weights: []densesm90.Weight{w}}, d.sums)
			if err != nil {
				return err
			}
			if took, err = d.fastest(func() error { return k.Launch(d.stream, peakSize) }); err != nil {
				return err
			}
			*rate = 2 * peakSize * peakSize * peakSize / took.Seconds()
		}
		return nil
	})
	return p, err
}

// cacheRuns is how many copies inside the L2 cache are timed together: one takes little more than starting it does.
const cacheRuns = 32

// Caches implements backend.LevelMeasurer: the L2 cache, at the rate of a copy that stays inside it, read and written bytes counted.
func (d *Device) Caches() (levels []backend.Level, err error) {
	size := int64(d.ctx.L2) / 4
	if size == 0 {
		return nil, nil
	}
	err = d.do(func() error {
		a, err := d.noise(2 * size)
		if err != nil {
			return err
		}
		defer d.drop(a)
		took, err := d.fastest(func() error {
			for range cacheRuns {
				if err := d.stream.Copy(a+driver.Ptr(size), a, size); err != nil {
					return err
				}
			}
			return nil
		})
		levels = []backend.Level{{Name: "L2", Bytes: int64(d.ctx.L2), Read: float64(2*size*cacheRuns) / took.Seconds()}}
		return err
	})
	return levels, err
}

// noise is device memory full of random bf16 numbers in ±1.
func (d *Device) noise(n int64) (driver.Ptr, error) {
	block, rnd := make([]byte, 8<<20), rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(block); i += 2 {
		binary.LittleEndian.PutUint16(block[i:], quant.F32ToBF16(rnd.Float32()*2-1))
	}
	p, err := d.alloc(n, "measuring")
	if err != nil {
		return 0, err
	}
	for at := int64(0); at < n; at += int64(len(block)) {
		if err := d.stream.Upload(p+driver.Ptr(at), block[:min(int64(len(block)), n-at)]); err != nil {
			return 0, err
		}
	}
	return p, d.stream.Synchronize()
}

// fastest is the least of a few times that f's work takes on the device.
func (d *Device) fastest(f func() error) (time.Duration, error) {
	var times []time.Duration
	for range peakRuns {
		clock, err := d.clock(2)
		if err != nil {
			return 0, err
		}
		err = errors.Join(d.stream.Record(clock[0]), f(), d.stream.Record(clock[1]), clock[1].Synchronize())
		took, failed := clock[1].Since(clock[0])
		if err = errors.Join(err, failed, stop(clock)); err != nil {
			return 0, err
		}
		times = append(times, took)
	}
	return slices.Min(times), nil
}

// clock is n events.
func (d *Device) clock(n int) ([]*driver.Event, error) {
	events := make([]*driver.Event, n)
	for i := range events {
		var err error
		if events[i], err = d.ctx.NewEvent(); err != nil {
			return nil, errors.Join(err, stop(events[:i]))
		}
	}
	return events, nil
}

func stop(clock []*driver.Event) error {
	var errs []error
	for _, e := range clock {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}
