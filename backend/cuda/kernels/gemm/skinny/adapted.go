package skinny

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// What adapted.h has of rows of x, of weights in a launch, of adapters' ranks and of parts of an adapter's columns at most.
const (
	AdaptedRows   = 8
	AdaptedParts  = 3
	AdaptedRank   = 64
	adaptedSplits = 16
)

// HiddenBytes is what AdaptedParams.H takes.
const HiddenBytes = 4 * AdaptedRows * AdaptedParts * AdaptedRank * adaptedSplits

// SlotsB is the second matrices of adapters for a weight: in each slot, Stride numbers apart, [passes of 16 ranks][N][16] bf16. What an adapter does not have is zeros.
type SlotsB struct {
	At     driver.Ptr
	Stride int64
}

// AdaptedParams mirrors AdaptedParams of adapted.h. Tiles and Scales are as lora.Tiles has them.
type AdaptedParams struct {
	Params
	Tiles, Places, RowSlots, Scales driver.Ptr
	Slots                           [AdaptedParts]driver.Ptr // of each part; of a gated problem of gate and up
	B                               [AdaptedParts]SlotsB     // of the same
	H                               driver.Ptr               // HiddenBytes, all 0xff between launches
	Arrived                         driver.Ptr               // int32, 0 between launches
	Count, Passes                   int32                    // tiles; blocks for the ranks of each: 16 of them
	splits                          int32                    // blocks for the columns of A
	_                               int32
}

// AdaptedKernel is a problem's kernels where rows have LoRA adapters: one launch multiplies with the weights and with the adapters' matrices.
type AdaptedKernel struct {
	Kernel
	gated bool
}

// NewAdapted finds the kernels for numbers in BF16. Gated is as New has it.
func NewAdapted(l *kernels.Loader, gated bool) (*AdaptedKernel, error) {
	k := &AdaptedKernel{gated: gated, Kernel: Kernel{sms: l.SMs(), variants: []variant{
		{name: "adapted8_few", rows: AdaptedRows, weights: 16, threads: 512, few: true},
		{name: "adapted8", rows: AdaptedRows, weights: 16, threads: 256},
	}}}
	if gated {
		k.variants = []variant{{name: "adapted8_gated", rows: AdaptedRows, weights: 16, threads: 256}}
	}
	for i := range k.variants {
		var err error
		if k.variants[i].kernel, err = l.Kernel("gemm/skinny/adapted", k.variants[i].name, 0); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// onceColumns is how many columns of A a warp has on their way at once: DEEP × CHUNK of skinny.h. A block that computes with A has no more, so that it
// waits for memory once.
const onceColumns = 2 * 64

// Launch computes p.M rows, AdaptedRows at most.
func (k *AdaptedKernel) Launch(s *driver.Stream, p *AdaptedParams) error {
	v := k.variant(&p.Params)
	once := v.threads / 32 * onceColumns
	p.splits = int32(min((int(p.K)+once-1)/once, adaptedSplits))
	adapters := int(p.Count * p.Passes * p.splits)
	if !k.gated {
		adapters *= int(p.Parts)
	}
	return driver.Launch(s, v.kernel, driver.Grid{X: adapters + v.blocks(&p.Params), Threads: v.threads}, p)
}
