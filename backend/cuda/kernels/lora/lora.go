// Package lora changes results of products, and embeddings, as the adapters of the rows' sequences say: SGMV and BGMV.
package lora

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// What lora.cu has of rows in a tile, of results that one launch changes, and of ranks, at most.
const (
	TileRows   = 8
	MaxTargets = 8
	MaxRank    = 512
)

// Slot mirrors LoraSlot of lora.cu.
type Slot struct {
	A, B, Columns, Bias, Rows, Indices driver.Ptr
	Rank, Count                        int32
	Scale                              float32
	_                                  int32
}

// Tiles is the groups of rows of a step: [n × 4] int32 slot, first row, rows, 0; rows of values, and a scale for each.
type Tiles struct{ Tiles, Rows, Scales driver.Ptr }

// Params mirrors LoraParams of lora.cu.
type Params struct {
	Tiles
	X, H                      driver.Ptr
	Slots, Y                  [MaxTargets]driver.Ptr
	Out                       [MaxTargets]int32
	In, Targets, RankBound, _ int32
}

// EmbedParams mirrors LoraEmbedParams of lora.cu.
type EmbedParams struct {
	Tiles
	IDs, PrevTokens, Slots, Y driver.Ptr
	Width                     int32
	Scale                     float32
}

// Kernels are those for values of one type.
type Kernels struct{ shrink, replace, expand *driver.Kernel }

// New finds the kernels of graph.LoRA.
func New(l *kernels.Loader, t graph.Type) (k Kernels, err error) {
	for name, to := range map[string]**driver.Kernel{"lora_shrink": &k.shrink, "lora_replace": &k.replace, "lora_expand": &k.expand} {
		if *to, err = l.Kernel("lora/lora", kernels.Name(name, t), 0); err != nil {
			return k, err
		}
	}
	return k, nil
}

// Embed finds the kernel of graph.LoRAEmbed.
func Embed(l *kernels.Loader, t graph.Type) (*driver.Kernel, error) {
	return l.Kernel("lora/lora", kernels.Name("lora_embed", t), 0)
}

const threads = 256

// Launch puts the kernels for so many tiles on the stream. replaced is the most rows of a matrix that an adapter has of its own; 0: none.
func (k Kernels) Launch(s *driver.Stream, tiles, replaced int, p *Params) error {
	widest := int32(0)
	for _, out := range p.Out[:p.Targets] {
		widest = max(widest, out)
	}
	if err := driver.Launch(s, k.shrink, driver.Grid{X: tiles, Y: int(p.Targets), Threads: threads}, p); err != nil {
		return err
	}
	if replaced > 0 {
		const warps = threads / 32
		if err := driver.Launch(s, k.replace, driver.Grid{X: tiles, Y: (replaced + warps - 1) / warps, Z: int(p.Targets), Threads: threads}, p); err != nil {
			return err
		}
	}
	return driver.Launch(s, k.expand, driver.Grid{X: tiles, Y: (int(widest) + threads - 1) / threads, Z: int(p.Targets), Threads: threads}, p)
}

// LaunchEmbed puts Embed's kernel for so many tiles on the stream.
func LaunchEmbed(s *driver.Stream, k *driver.Kernel, tiles int, p *EmbedParams) error {
	return driver.Launch(s, k, driver.Grid{X: tiles, Y: TileRows, Threads: threads}, p)
}
