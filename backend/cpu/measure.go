package cpu

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// peakBytes is read to measure memory bandwidth: more than any last-level cache.
const peakBytes = 1 << 30

// Peaks implements backend.Measurer. All threads measure at the same time, as they share clock and memory.
func (d *Device) Peaks() (backend.Peaks, error) {
	m, err := newMemory(peakBytes, 0)
	if err != nil {
		return backend.Peaks{}, fmt.Errorf("cpu: measuring the memory's bandwidth: %w", err)
	}
	defer m.free()
	n := min(d.pool.N(), runtime.GOMAXPROCS(0)) // more would share processors
	each := peakBytes / n
	var p backend.Peaks
	rates := make([]float64, n)
	all := func(f func(w *worker) float64) float64 {
		d.pool.run(func(w *worker) {
			if w.id < n {
				rates[w.id] = f(w)
			}
		})
		sum := 0.0
		for _, r := range rates {
			sum += r
		}
		return sum
	}
	peak := func(f gemm.ActFormat) float64 {
		return all(func(*worker) float64 { return gemm.Peak(d.tier, f, 100*time.Millisecond) })
	}
	p.Int8, p.BF16, p.F32 = peak(gemm.Q8), peak(gemm.BFloat16), peak(gemm.Float32)
	all(func(w *worker) float64 { // pages never written are all mapped to the zero page
		part := m.bytes[w.id*each : (w.id+1)*each]
		for i := range part {
			part[i] = byte(i * 31)
		}
		return 0
	})
	for range 3 {
		p.Read = max(p.Read, all(func(w *worker) float64 {
			return gemm.PeakRead(d.tier, m.bytes[w.id*each:(w.id+1)*each])
		}))
	}
	return p, nil
}

// RunTimed implements backend.Measurer. A launch ends when the first worker passes its barrier: another may wake up late,
// when the first has done its part of the next launch too.
func (d *Device) RunTimed(launches []backend.Launch, b *backend.Batch, took []time.Duration) error {
	if len(took) != len(launches) {
		return fmt.Errorf("cpu: %d times for %d launches", len(took), len(launches))
	}
	d.count()
	next := following(launches)
	chooseScaleGroups(launches)
	start := time.Now()
	ends := make([][]time.Duration, d.pool.N()) // of each worker: after the start, and after each launch
	for id := range ends {
		ends[id] = make([]time.Duration, 0, len(launches)+1)
	}
	d.pool.run(func(w *worker) {
		mine := append(ends[w.id], time.Since(start))
		for i, l := range launches {
			w.next, w.q8 = next[i], l.(*launch).q8
			w.block, w.blocks = 0, 1
			l.(*launch).run(w, b)
			w.sync()
			mine = append(mine, time.Since(start))
		}
		ends[w.id] = mine
	})
	d.advanceStages()
	first := func(i int) time.Duration {
		least := ends[0][i]
		for _, worker := range ends[1:] {
			least = min(least, worker[i])
		}
		return least
	}
	for i := range took {
		took[i] = first(i+1) - first(i)
	}
	return nil
}
