// Package lora changes results of products, and embeddings, as the adapters of the rows' sequences say: SGMV and BGMV. Rows in bf16 go through the
// tensor cores (mma.cu), others not (lora.cu).
package lora

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// What params.h has of rows in a tile, of results that one launch changes, and of ranks, at most. Ranks are multiples of RankUnit.
const (
	TileRows   = 16
	RankUnit   = 8
	MaxTargets = 8
	MaxRank    = 512
	DeltaRank  = 64 // of NewDelta
)

// Slot mirrors LoraSlot of lora.cu.
type Slot struct {
	A, B, Columns, Bias, Rows, Indices driver.Ptr
	Rank, Count                        int32
	Scale                              float32
}

// PassRanks is how many ranks of B lie side by side, 0 behind the last that there is: [passes of PassRanks ranks][out][PassRanks].
const PassRanks = 16

// BNumbers is how many numbers B takes.
func BNumbers(out, rank int) int64 { return int64(passesOf(rank)) * int64(out) * PassRanks }

// passesOf is how many passes a rank has.
func passesOf(rank int) int { return (rank + PassRanks - 1) / PassRanks }

// EncodeSlot is a Slot as it lies in device memory.
func EncodeSlot(e *Slot) []byte {
	var b []byte
	for _, p := range []driver.Ptr{e.A, e.B, e.Columns, e.Bias, e.Rows, e.Indices} {
		b = binary.LittleEndian.AppendUint64(b, uint64(p))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Rank))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Count))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(e.Scale))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// Tiles is the groups of rows of a step: [n × 4] int32 slot, first row, rows, the slot's plane; rows of values, and a scale for each.
type Tiles struct{ Tiles, Rows, Scales driver.Ptr }

// Params mirrors LoraParams of lora.cu.
type Params struct {
	Tiles
	X, H                           driver.Ptr
	Slots, Y                       [MaxTargets]driver.Ptr
	Out                            [MaxTargets]int32
	In, Targets, RankBound, Splits int32
}

// EmbedParams mirrors LoraEmbedParams of lora.cu.
type EmbedParams struct {
	Tiles
	IDs, PrevTokens, Slots, Y driver.Ptr
	Width                     int32
	Scale                     float32
}

// Kernels are those for values of one type.
type Kernels struct {
	shrink, replace, expand *driver.Kernel
	mma                     bool // shrink and expand are those on the tensor cores
}

// New finds the kernels of graph.LoRA for matrices of these sizes.
func New(l *kernels.Loader, t graph.Type, in int, outs []int) (k Kernels, err error) {
	k.mma = t == graph.BF16 && in%32 == 0
	for _, out := range outs {
		k.mma = k.mma && out%8 == 0
	}
	if k.replace, err = l.Kernel("lora/lora", kernels.Name("lora_replace", t), 0); err != nil {
		return k, err
	}
	module, shrink, expand := "lora/lora", kernels.Name("lora_shrink", t), kernels.Name("lora_expand", t)
	if k.mma {
		module, shrink, expand = "lora/mma", "lora_shrink_mma", "lora_expand_mma"
	}
	if k.shrink, err = l.Kernel(module, shrink, 0); err != nil {
		return k, err
	}
	k.expand, err = l.Kernel(module, expand, 0)
	return k, err
}

// FitsDelta reports whether NewDelta has kernels for matrices of these sizes and products of this rank.
func FitsDelta(in int, outs []int, rank int) bool {
	return in%32 == 0 && rank <= DeltaRank && !slices.ContainsFunc(outs, func(out int) bool { return out%8 != 0 })
}

// NewDelta finds kernels that write what products of adapters add to results in bf16, and do not add it: for rows that have adapters, and no others.
func NewDelta(l *kernels.Loader) (k Kernels, err error) {
	k.mma = true
	if k.shrink, err = l.Kernel("lora/mma", "lora_shrink_mma", 0); err != nil {
		return k, err
	}
	k.expand, err = l.Kernel("lora/mma", "lora_delta_mma", 0)
	return k, err
}

// Embed finds the kernel of graph.LoRAEmbed.
func Embed(l *kernels.Loader, t graph.Type) (*driver.Kernel, error) {
	return l.Kernel("lora/lora", kernels.Name("lora_embed", t), 0)
}

const threads = 256

// Blocks that a launch is divided into where there are few tiles, and the most parts that the columns of A are divided into.
const (
	fewBlocks = 264 // two for each multiprocessor of an H200
	maxSplits = 16
)

// perWarp is how many groups of columns of B a warp goes through where there are enough tiles: with fewer, the sum of h that each block makes counts.
const perWarp = 8

// splits is into how many parts to divide the columns of A.
func splits(tiles, targets int) int { return min(max(fewBlocks/(tiles*targets), 1), maxSplits) }

// HBytes is what H takes in steps of at most so many tiles.
func HBytes(tiles, targets, rank int) int64 {
	rows := max(tiles, fewBlocks, maxSplits) * TileRows // splits × tiles is no more
	rank = passesOf(rank) * PassRanks
	return 4 * int64(rows) * int64(targets) * int64(rank)
}

// Launch puts the kernels for so many tiles on the stream. replaced is the most rows of a matrix that an adapter has of its own; 0: none.
func (k Kernels) Launch(s *driver.Stream, tiles, replaced int, p *Params) error {
	widest := int32(0)
	for _, out := range p.Out[:p.Targets] {
		widest = max(widest, out)
	}
	targets := int(p.Targets)
	shrink, blocks := driver.Grid{X: tiles, Y: targets, Threads: threads}, (int(widest)+threads-1)/threads
	if p.Splits = 1; k.mma {
		p.Splits = int32(splits(tiles, targets))
		shrink.Y, shrink.Z = targets*passesOf(int(p.RankBound)), int(p.Splits)
		blocks = min(blocks, max(1, blocks/perWarp, fewBlocks/(tiles*targets)))
	}
	if err := driver.Launch(s, k.shrink, shrink, p); err != nil {
		return err
	}
	if replaced > 0 {
		const warps = threads / 32
		if err := driver.Launch(s, k.replace, driver.Grid{X: tiles, Y: (replaced + warps - 1) / warps, Z: targets, Threads: threads}, p); err != nil {
			return err
		}
	}
	return driver.Launch(s, k.expand, driver.Grid{X: tiles, Y: blocks, Z: targets, Threads: threads}, p)
}

// LaunchEmbed puts Embed's kernel for so many tiles on the stream.
func LaunchEmbed(s *driver.Stream, k *driver.Kernel, tiles int, p *EmbedParams) error {
	return driver.Launch(s, k, driver.Grid{X: tiles, Y: TileRows, Threads: threads}, p)
}
