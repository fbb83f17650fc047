package calibrate

import (
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

// Nominal is an initial profile of a device that was not measured, of the right order of magnitude.
func Nominal(dev backend.Device) *price.Profile {
	i := dev.Info()
	threads := float64(max(i.Threads, 1))
	return &price.Profile{
		Name: i.Name, Title: i.Detail, Source: "a guess by the number of threads; ridge calibrate measures",
		FLOPs:  map[price.Number]float64{price.F32: nominalF32 * threads, price.BF16: nominalF32 * threads, price.Int8: nominalInt8 * threads},
		Levels: []price.Level{{Name: "memory", Bytes: max(i.Memory, nominalBytes), Rate: nominalRead * threads}},
		Launch: 1e-6, Act: i.Act.String(), Q8: i.Q8, RoundBF16: i.BF16, Kernels: i.Kernels,
	}
}
