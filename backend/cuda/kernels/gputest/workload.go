package gputest

import (
	"math/bits"

	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// Workload is sequences of one length that each compute their last New tokens, for benchmarks of attention.
type Workload struct {
	Seqs, Length, New int
	Page              int // tokens; pages are contiguous in the cache
	TileRows          int // rows of a tile of prefill attention, of which New is a multiple; 0 makes no tiles
}

// Tokens is the number of tokens computed.
func (c Workload) Tokens() int { return c.Seqs * c.New }

// Pages is the number of pages of all sequences.
func (c Workload) Pages() int { return c.Seqs * c.seqPages() }

func (c Workload) seqPages() int { return (c.Length + c.Page - 1) / c.Page }

// Step uploads a workload's step and counts its tiles. The last tile of every sequence, with the most keys, comes first.
func (g *GPU) Step(c Workload) (step kernels.Step, tiles int) {
	table, qStart, kvLen, list := make([]int32, c.Pages()), []int32{0}, []int32{}, []int32{}
	for i := range table {
		table[i] = int32(i)
	}
	for i := range c.Seqs {
		qStart, kvLen = append(qStart, int32((i+1)*c.New)), append(kvLen, int32(c.Length))
	}
	if c.TileRows > 0 {
		for t := c.New/c.TileRows - 1; t >= 0; t-- {
			for i := range c.Seqs {
				list = append(list, int32(i), int32(i*c.New+t*c.TileRows))
			}
		}
	}
	step = kernels.Step{Counts: g.Ints(int32(c.Tokens()), int32(c.Seqs), 0), QStart: g.Ints(qStart...), KVLen: g.Ints(kvLen...), Pages: g.Ints(table...),
		SeqPages: int32(c.seqPages()), PageShift: int32(bits.Len(uint(c.Page)) - 1)}
	if len(list) > 0 {
		step.Tiles = g.Ints(list...)
	}
	return step, len(list) / 2
}
