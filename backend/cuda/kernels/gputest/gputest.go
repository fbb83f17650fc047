// Package gputest is what the kernels' tests and benchmarks share: a GPU or a sentence why there is none, data on it, and
// comparisons with plain Go.
package gputest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/quant"
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

// Poisoned is n bytes of device memory full of 0xff: not-a-number as F32 and BF16, so that what a kernel leaves unwritten, or
// should not have read, is seen.
func (g *GPU) Poisoned(n int) driver.Ptr {
	p, err := g.Ctx.Alloc(int64(n))
	g.Must(err)
	g.owned = append(g.owned, p)
	g.Must(g.Stream.Fill(p, 0xff, int64(n)))
	return p
}

// Zeros is n bytes of zeros.
func (g *GPU) Zeros(n int) driver.Ptr {
	p := g.Poisoned(n)
	g.Must(g.Stream.Fill(p, 0, int64(n)))
	return p
}

// put copies b to fresh device memory.
func (g *GPU) put(b []byte) driver.Ptr {
	p := g.Poisoned(len(b))
	g.Must(g.Stream.Upload(p, b))
	g.Must(g.Stream.Synchronize())
	return p
}

// Bytes puts bytes on the device.
func (g *GPU) Bytes(b []byte) driver.Ptr { return g.put(b) }

// F32 puts numbers on the device.
func (g *GPU) F32(x []float32) driver.Ptr {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return g.put(b)
}

// BF16 puts numbers on the device as BF16; they should be exact in it.
func (g *GPU) BF16(x []float32) driver.Ptr {
	b := make([]byte, 2*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint16(b[2*i:], quant.F32ToBF16(v))
	}
	return g.put(b)
}

// Ints puts integers on the device.
func (g *GPU) Ints(x ...int32) driver.Ptr {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	return g.put(b)
}

// Random is n numbers of about the given size, normal, each exact in BF16.
func (g *GPU) Random(n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = quant.BF16ToF32(quant.F32ToBF16(float32(g.Rand.NormFloat64() * scale)))
	}
	return x
}

// Noise is n bytes on the device, random bits that are sound BF16 numbers of about ±1, made quickly: for benchmarks, whose
// inputs are large.
func (g *GPU) Noise(n int) driver.Ptr {
	block := make([]byte, min(n, 8<<20))
	for i := 0; i+1 < len(block); i += 2 {
		v := float32(g.Rand.Float64()*2 - 1)
		binary.LittleEndian.PutUint16(block[i:], quant.F32ToBF16(v))
	}
	p := g.Poisoned(n)
	for at := 0; at < n; at += len(block) {
		k := min(len(block), n-at)
		g.Must(g.Stream.Upload(p+driver.Ptr(at), block[:k]))
	}
	g.Must(g.Stream.Synchronize())
	return p
}

// ReadF32 reads n F32 numbers back.
func (g *GPU) ReadF32(p driver.Ptr, n int) []float32 { return g.read(p, n, quant.F32) }

// ReadBF16 reads n BF16 numbers back.
func (g *GPU) ReadBF16(p driver.Ptr, n int) []float32 { return g.read(p, n, quant.BF16) }

// ReadF16 reads n IEEE halves back.
func (g *GPU) ReadF16(p driver.Ptr, n int) []float32 { return g.read(p, n, quant.F16) }

// ReadBytes reads n bytes back.
func (g *GPU) ReadBytes(p driver.Ptr, n int) []byte {
	b := make([]byte, n)
	g.Must(g.Stream.Download(b, p))
	g.Must(g.Stream.Synchronize())
	return b
}

func (g *GPU) read(p driver.Ptr, n int, f quant.Format) []float32 {
	b := make([]byte, f.RowBytes(n))
	g.Must(g.Stream.Download(b, p))
	g.Must(g.Stream.Synchronize())
	x := make([]float32, n)
	quant.Decode(f, x, b)
	return x
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
