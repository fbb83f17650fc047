// Package recurrent has the kernels of recurrent layers: causal convolution, gated delta rule, Mamba 2 and Mamba 1. They go through a
// sequence token by token with its state in registers, but for the gated delta rule of prompts in BF16, which goes in chunks on the tensor cores.
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

// DeltaParams mirrors GatedDeltaParams of gated_delta.cu.
type DeltaParams struct {
	Step                                     kernels.Step
	X, Alpha, Beta                           driver.Ptr // [T, q∥k∥v], [T, ValueHeads], [T, ValueHeads]
	Y                                        driver.Ptr // [T, ValueHeads × ValueSize]
	States                                   driver.Ptr // [states][ValueHeads][KeySize][ValueSize] float32
	Decay, Bias                              driver.Ptr // [ValueHeads] float32
	KeyHeads, KeySize, ValueHeads, ValueSize int32
	Scale                                    float32 // of queries
	Tiled                                    int32   // 1: value head h is one of key head h mod KeyHeads
}

// SSDParams mirrors SSDParams of ssd.cu.
type SSDParams struct {
	Step                               kernels.Step
	X, DT                              driver.Ptr // [T, x∥B∥C], [T, Heads]
	Y                                  driver.Ptr // [T, Heads × HeadSize]
	States                             driver.Ptr // [states][Heads][HeadSize][StateSize] float32
	Decay, Bias, Skip                  driver.Ptr // [Heads] float32
	Heads, HeadSize, Groups, StateSize int32
	MinStep, MaxStep                   float32 // of Δ
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
	MaxStateSize = 256 // of SSD
	MaxScanSize  = 16  // of SelectiveScan
)

const (
	threads = 128
	tile    = 32 // columns (GatedDelta) or rows (SSD) of a state that a block has
)

func blocks(n, of int) int { return (n + of - 1) / of }

// Conv is the kernels of a causal convolution for values of one type.
type Conv struct{ step, rows, state *driver.Kernel }

// NewConv finds them.
func NewConv(l *kernels.Loader, t graph.Type) (*Conv, error) {
	c := &Conv{}
	for name, to := range map[string]**driver.Kernel{"conv_step": &c.step, "conv_rows": &c.rows, "conv_state": &c.state} {
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
	rows := g
	rows.Y = tokens
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

// chunksParams mirrors GatedDeltaChunksParams of gated_delta_chunks.cu.
type chunksParams struct {
	Delta   DeltaParams
	Scratch driver.Ptr // [chunks][ValueHeads] of preparedBytes
}

// What gated_delta_chunks.cu says, too.
const (
	chunk         = 64  // tokens
	chunkColumns  = 32  // of a state that a block has
	maxChunkKey   = 128 // largest keys
	preparedBytes = 2*2*chunk*chunk + 4*4*chunk
	prepareShared = 71168
	// ChunksShared is the shared memory of a block, in bytes.
	ChunksShared = 143904
)

// Delta is the kernels of GatedDelta for values of one type: for one token of each sequence, for the others in chunks, and for any token by token.
type Delta struct{ step, prepare, chunks, tokens *driver.Kernel }

// Chunked reports whether prompts of values of a type go in chunks on the tensor cores, where a block may have ChunksShared of shared memory.
func Chunked(t graph.Type, keySize, valueSize int) bool {
	return t == graph.BF16 && keySize <= maxChunkKey && keySize%8 == 0 && valueSize%8 == 0
}

// DeltaScratch is the memory for the chunks of steps of up to so many tokens and sequences, in bytes.
func DeltaScratch(tokens, seqs, valueHeads int) int64 {
	return int64(slots(tokens, seqs)) * int64(valueHeads) * preparedBytes
}

// slots is how many places for chunks a step's sequences may take.
func slots(tokens, seqs int) int { return tokens/chunk + seqs }

// NewDelta finds them; chunked: prompts are Chunked.
func NewDelta(l *kernels.Loader, t graph.Type, keySize, valueSize int, chunked bool) (d *Delta, err error) {
	d = &Delta{}
	find := func(to **driver.Kernel, module, name string, shared int) {
		if err == nil {
			*to, err = l.Kernel("recurrent/"+module, name, shared)
		}
	}
	if valueSize%4 == 0 { // 16 bytes of a state
		find(&d.step, "gated_delta_step", kernels.Name(sized("gated_delta_step", keySize), t), 0)
	}
	if chunked {
		find(&d.prepare, "gated_delta_chunks", "gated_delta_prepare", prepareShared)
		find(&d.chunks, "gated_delta_chunks", "gated_delta_chunks", ChunksShared)
	} else {
		find(&d.tokens, "gated_delta", kernels.Name(sized("gated_delta", keySize), t), 0)
	}
	return d, err
}

// Launch puts the kernels for a step on the stream; ones: some of its sequences may have one new token. scratch has DeltaScratch.
func (d *Delta) Launch(s *driver.Stream, tokens, seqs int, ones bool, p *DeltaParams, scratch driver.Ptr) error {
	if all := tokens == seqs; d.step != nil && (all || ones && d.chunks != nil) {
		const columns = 128
		err := driver.Launch(s, d.step, driver.Grid{X: blocks(int(p.ValueSize), columns), Y: int(p.ValueHeads), Z: seqs, Threads: 256}, p)
		if err != nil || all {
			return err
		}
	}
	if d.chunks == nil {
		return driver.Launch(s, d.tokens, driver.Grid{X: blocks(int(p.ValueSize), tile), Y: int(p.ValueHeads), Z: seqs, Threads: threads}, p)
	}
	c := &chunksParams{*p, scratch}
	if err := driver.Launch(s, d.prepare, driver.Grid{X: slots(tokens, seqs), Y: int(p.KeyHeads), Threads: 128, Shared: prepareShared}, c); err != nil {
		return err
	}
	return driver.Launch(s, d.chunks, driver.Grid{X: blocks(int(p.ValueSize), chunkColumns), Y: int(p.ValueHeads), Z: seqs, Threads: 256, Shared: ChunksShared}, c)
}

// SSD finds the kernel of graph.SSD.
func SSD(l *kernels.Loader, t graph.Type, stateSize int) (*driver.Kernel, error) {
	return l.Kernel("recurrent/ssd", kernels.Name(sized("ssd", stateSize), t), 0)
}

// LaunchSSD puts it on the stream.
func LaunchSSD(s *driver.Stream, k *driver.Kernel, seqs int, p *SSDParams) error {
	return driver.Launch(s, k, driver.Grid{X: blocks(int(p.HeadSize), tile), Y: int(p.Heads), Z: seqs, Threads: threads}, p)
}

// Scan finds the kernel of SelectiveScan.
func Scan(l *kernels.Loader, t graph.Type) (*driver.Kernel, error) {
	return l.Kernel("recurrent/selective_scan", kernels.Name(fmt.Sprintf("scan_%d", MaxScanSize), t), 0)
}

// LaunchScan puts it on the stream.
func LaunchScan(s *driver.Stream, k *driver.Kernel, seqs int, p *ScanParams) error {
	return driver.Launch(s, k, driver.Grid{X: blocks(int(p.Inner), threads), Y: seqs, Threads: threads}, p)
}
