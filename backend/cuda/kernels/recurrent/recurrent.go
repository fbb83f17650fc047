// Package recurrent has the kernels of recurrent layers: causal convolution, gated delta rule, Mamba 2 and Mamba 1. They go through a
// sequence token by token with its state in registers; in BF16, prompts of the delta rules and of Mamba 2 go in chunks on the tensor cores.
package recurrent

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// ConvParams mirrors CausalConvParams of causal_conv.cu.
type ConvParams struct {
	Step            kernels.Step
	X, Y            driver.Ptr // [T, Channels]
	States          driver.Ptr // [states][Width-1][Channels] float32
	W, Bias         driver.Ptr // [Channels, Width], [Channels] or 0, float32
	Channels, Width int32
	Silu            int32 // 1: followed by SiLU
	_               int32
}

// ScanParams mirrors SelectiveScanParams of selective_scan.cu.
type ScanParams struct {
	Step            kernels.Step
	X, DT, In, Read driver.Ptr // [T, Inner], [T, Inner], [T, Size], [T, Size]
	Y               driver.Ptr // [T, Inner]
	States          driver.Ptr // [states][Inner][Size] float32
	Decay, Skip     driver.Ptr // [Inner, Size], [Inner] float32
	Inner, Size     int32
}

// The largest sizes that there are kernels for.
const (
	MaxWidth     = 8   // of a convolution
	MaxKeySize   = 256 // of GatedDelta
	MaxKimiSize  = 128 // of KimiDelta
	MaxStateSize = 256 // of SSD
	MaxScanSize  = 16  // of SelectiveScan
)

const (
	threads = 128
	tile    = 32 // columns (GatedDelta), rows (SSD) or channels (SelectiveScan) of a state that a block has
)

func blocks(n, of int) int { return (n + of - 1) / of }

// Conv is the kernels of a causal convolution for values of one type.
type Conv struct {
	step, rows, state *driver.Kernel
	channels, tall    int // of a thread of rows, and rows
}

// What causal_conv.cu says, too: eight channels and 16 rows are a thread's where a convolution sees three or four tokens.
const convEach, convTile = 8, 16

// NewConv finds them, for a convolution of so many channels that sees width tokens.
func NewConv(l *kernels.Loader, t graph.Type, channels, width int) (*Conv, error) {
	c, rows := &Conv{channels: 1, tall: 1}, "conv_rows"
	if t == graph.BF16 && (width == 3 || width == 4) && channels%convEach == 0 {
		c.channels, c.tall, rows = convEach, convTile, fmt.Sprint("conv_tile", width)
	}
	for name, to := range map[string]**driver.Kernel{"conv_step": &c.step, rows: &c.rows, "conv_state": &c.state} {
		var err error
		if *to, err = l.Kernel("recurrent/causal_conv", kernels.Name(name, t), 0); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Launch convolves: with one new token in every sequence in one launch, otherwise all rows side by side and the states behind them.
func (c *Conv) Launch(s *driver.Stream, tokens, seqs int, p *ConvParams) error {
	g := driver.Grid{X: blocks(int(p.Channels), threads), Y: seqs, Threads: threads}
	if tokens == seqs {
		return driver.Launch(s, c.step, g, p)
	}
	rows := driver.Grid{X: blocks(int(p.Channels), threads*c.channels), Y: blocks(tokens, c.tall), Threads: threads}
	if err := driver.Launch(s, c.rows, rows, p); err != nil {
		return err
	}
	return driver.Launch(s, c.state, g, p)
}

// sized is the name of a kernel that is made for sizes up to 128 and up to 256.
func sized(name string, size int) string {
	if size <= 128 {
		return name + "_128"
	}
	return name + "_256"
}

// Scan is the kernels of SelectiveScan for values of one type: for one token of each sequence, and for any.
type Scan struct{ step, tokens *driver.Kernel }

// NewScan finds them.
func NewScan(l *kernels.Loader, t graph.Type) (*Scan, error) {
	k, err := &Scan{}, error(nil)
	if k.step, err = l.Kernel("recurrent/selective_scan", kernels.Name(fmt.Sprintf("scan_%d_step", MaxScanSize), t), 0); err != nil {
		return nil, err
	}
	k.tokens, err = l.Kernel("recurrent/selective_scan", kernels.Name(fmt.Sprintf("scan_%d", MaxScanSize), t), 0)
	return k, err
}

// Launch puts the kernel for a step on the stream.
func (k *Scan) Launch(s *driver.Stream, tokens, seqs int, p *ScanParams) error {
	kernel, threads := k.tokens, 256
	if tokens == seqs {
		kernel, threads = k.step, 128
	}
	return driver.Launch(s, kernel, driver.Grid{X: blocks(int(p.Inner), tile), Y: seqs, Threads: threads}, p)
}
