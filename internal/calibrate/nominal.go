package calibrate

import (
	"cmp"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/price"
)

// Throughput of one CPU thread, as an initial guess that the engine corrects.
const (
	nominalF32   = 60e9  // FLOP/s
	nominalInt8  = 200e9 // FLOP/s
	nominalRead  = 12e9  // bytes/s
	nominalBytes = 1 << 30
)

// Times of a GPU that states its peaks, likewise: a launch from the host, and a step's other calls.
const (
	nominalGPULaunch = 2.5e-6 // s
	nominalGPUStep   = 50e-6  // s
)

// Nominal is an initial profile of a device that was not measured, of the right order of magnitude: by what it states of its clocks and widths,
// and otherwise by the number of its threads.
func Nominal(dev backend.Device) *price.Profile {
	i := dev.Info()
	p := &price.Profile{
		Name: i.Name, Title: i.Detail, Act: i.Act.String(), Q8: i.Q8, RoundBF16: i.BF16, Kernels: i.Kernels, Replays: i.Replays, RowTiles: i.RowTiles,
	}
	memory := price.Level{Name: "memory", Bytes: max(i.Memory, nominalBytes)}
	if s := i.Stated; s.Read > 0 {
		p.Source = "the clocks and widths that the device states; ridge calibrate measures"
		p.FLOPs = map[price.Number]float64{price.F32: s.F32, price.BF16: s.BF16, price.Int8: cmp.Or(s.Int8, s.BF16), price.FP8: cmp.Or(s.FP8, s.BF16)}
		p.Attention, p.Launch, memory.Rate = price.BF16, nominalGPULaunch, s.Read
		p.Levels = []price.Level{memory}
		fit := price.Typical(p)
		fit.Step, fit.ReplayStep = nominalGPUStep, nominalGPUStep
		p.Fit = fit
		return p
	}
	threads := float64(max(i.Threads, 1))
	p.Source = "a guess by the number of threads; ridge calibrate measures"
	p.FLOPs = map[price.Number]float64{price.F32: nominalF32 * threads, price.BF16: nominalF32 * threads, price.Int8: nominalInt8 * threads}
	p.Launch, memory.Rate = 1e-6, nominalRead*threads
	p.Levels = []price.Level{memory}
	return p
}
