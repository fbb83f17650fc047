// Package gputest is what the kernels' tests and benchmarks share: a GPU or a sentence why there is none, data on it, and
// comparisons with plain Go.
package gputest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// GPU is the first GPU, in use by one test.
type GPU struct {
	testing.TB
	Ctx    *driver.Context
	Stream *driver.Stream
	Loader *kernels.Loader
	Rand   *rand.Rand
	owned  []driver.Ptr
}

// Run runs f on the first GPU, or skips the test and says why there is none.
func Run(t testing.TB, f func(g *GPU)) {
	t.Helper()
	d, err := driver.Open()
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	devices, err := d.Devices()
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	ctx, err := devices[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	g := &GPU{TB: t, Ctx: ctx, Rand: rand.New(rand.NewPCG(1, 2)), Loader: kernels.NewLoader(ctx, ctx.Arch())}
	err = ctx.Do(func() error {
		var err error
		if g.Stream, err = ctx.NewStream(); err != nil {
			return err
		}
		g.Stream.Overlap = g.Loader.Hopper()
		defer g.close()
		f(g)
		return g.Stream.Synchronize()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (g *GPU) free() {
	for _, p := range g.owned {
		g.Ctx.Free(p)
	}
}

func (g *GPU) close() {
	g.free()
	g.Loader.Close()
	g.Stream.Close()
	g.Ctx.Close()
}

// Sub runs f as a part of the test with a name of its own, on the same GPU.
func (g *GPU) Sub(name string, f func(g *GPU)) {
	g.Helper()
	g.TB.(*testing.T).Run(name, func(t *testing.T) {
		sub := *g
		sub.TB, sub.owned = t, nil
		err := g.Ctx.Do(func() error {
			defer sub.free()
			f(&sub)
			return g.Stream.Synchronize()
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Scope frees the memory that f took once it returns.
func (g *GPU) Scope(f func()) {
	before := len(g.owned)
	f()
	g.Must(g.Stream.Synchronize())
	for _, p := range g.owned[before:] {
		g.Must(g.Ctx.Free(p))
	}
	g.owned = g.owned[:before]
}

// Must ends the test on an error.
func (g *GPU) Must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// Near checks ‖got − want‖ ≤ tolerance × ‖want‖; a number that is none fails.
func (g *GPU) Near(what string, got []float32, want []float64, tolerance float64) {
	g.Helper()
	if len(got) != len(want) {
		g.Errorf("%s: %d numbers, want %d", what, len(got), len(want))
		return
	}
	var diff, norm float64
	for i := range want {
		if math.IsNaN(float64(got[i])) {
			g.Errorf("%s: number %d of %d is NaN, want %g: unwritten, or read from where nothing was", what, i, len(want), want[i])
			return
		}
		d := float64(got[i]) - want[i]
		diff, norm = diff+d*d, norm+want[i]*want[i]
	}
	if e := math.Sqrt(diff / max(norm, 1e-30)); !(e <= tolerance) {
		g.Errorf("%s: relative error %.3g, at most %.3g is right", what, e, tolerance)
	}
}

// Time is the median of the device's time for one call of f, over runs of calls between two events; run counts up through
// all, so that f may rotate its buffers beyond the L2 cache.
func (g *GPU) Time(f func(run int) error) time.Duration {
	const runs, calls = 15, 8
	start, err := g.Ctx.NewEvent()
	g.Must(err)
	stop, err := g.Ctx.NewEvent()
	g.Must(err)
	times := make([]time.Duration, 0, runs)
	for i := range runs + 2 {
		g.Must(g.Stream.Record(start))
		for c := range calls {
			g.Must(f(i*calls + c))
		}
		g.Must(g.Stream.Record(stop))
		g.Must(stop.Synchronize())
		d, err := stop.Since(start)
		g.Must(err)
		if i >= 2 { // the first warm up
			times = append(times, d/calls)
		}
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	return times[len(times)/2]
}

// Registers says how many registers a thread of a kernel has, and what did not fit into them, for the tables of benchmarks.
func (g *GPU) Registers(k *driver.Kernel) string {
	registers, local, err := k.Registers()
	g.Must(err)
	return fmt.Sprintf("%3d registers, %4d bytes of local memory", registers, local)
}
