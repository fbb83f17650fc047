package cpu

import (
	"fmt"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// cacheSpan is for how long each cache is read.
const cacheSpan = 20 * time.Millisecond

// Caches implements backend.LevelMeasurer: L2, of which every thread has its own, and L3, which
// they share. A cache of unknown size is left out.
func (d *Device) Caches() ([]backend.Level, error) {
	n := d.pool.N()
	c := cpuid.CPU.Cache
	var all []backend.Level
	for _, l := range []backend.Level{{Name: "L2", Bytes: int64(c.L2) * int64(n)}, {Name: "L3", Bytes: int64(c.L3)}} {
		if l.Bytes <= 0 || len(all) > 0 && l.Bytes <= all[len(all)-1].Bytes {
			continue
		}
		var err error
		if l.Read, err = d.readRate(min(l.Bytes/2, peakBytes/8)); err != nil {
			return nil, err
		}
		if l.Name == "L3" {
			if l.Bytes, err = d.effectiveBytes(l); err != nil {
				return nil, err
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// effectiveBytes is how much a cache holds for this process: others may use it too, above all on a virtual machine.
// If all of it is available, three quarters of it are read as fast as a half.
func (d *Device) effectiveBytes(l backend.Level) (int64, error) {
	if l.Bytes > peakBytes/2 {
		return l.Bytes, nil
	}
	three, err := d.readRate(l.Bytes / 4 * 3)
	if err != nil {
		return 0, err
	}
	memory, err := d.readRate(l.Bytes / 4 * 5)
	if err != nil {
		return 0, err
	}
	if memory >= l.Read {
		return l.Bytes, nil
	}
	missing := min(max((1/three-1/l.Read)/(1/memory-1/l.Read), 0), 1)
	return int64(float64(l.Bytes) * 0.75 / (0.75 + missing/2)), nil
}

// readRate is the bytes a second that all threads read, repeatedly, of so many that are divided among them.
func (d *Device) readRate(bytes int64) (float64, error) {
	m, err := newMemory(bytes, 0)
	if err != nil {
		return 0, fmt.Errorf("cpu: measuring a cache: %w", err)
	}
	defer m.free()
	n := d.pool.N()
	each := int(bytes) / n / 512 * 512
	rates := make([]float64, n)
	d.pool.run(func(w *worker) {
		part := m.bytes[w.id*each : (w.id+1)*each]
		for i := range part { // pages never written are all mapped to the zero page
			part[i] = byte(i)
		}
		w.sync()
		for start := time.Now(); rates[w.id] == 0 || time.Since(start) < cacheSpan; {
			rates[w.id] = max(rates[w.id], gemm.PeakRead(d.tier, part))
		}
	})
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum, nil
}
