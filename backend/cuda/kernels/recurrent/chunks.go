package recurrent

import (
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// What chunk_scan.h says, too.
const (
	chunk    = 64   // tokens
	panel    = 8192 // bytes of 64 columns of a chunk
	maxChunk = 128  // largest keys, and rows of states of SSD
	factors  = 1024 // bytes of the factors of a chunk
	slack    = 1024 // of shared memory, to begin at a multiple of as many bytes
	columns  = 64   // of a state that a warpgroup has
	// ChunksShared is the most shared memory of a block of kernels that go through chunks, in bytes.
	ChunksShared = 2*(9*panel+factors) + slack
)

// Chunked reports whether prompts of values of a type go in chunks on the tensor cores, where a block may have ChunksShared of shared memory: keys (or rows
// of states) and values (or states) of these sizes.
func Chunked(t graph.Type, keySize, valueSize int) bool {
	return t == graph.BF16 && keySize <= maxChunk && keySize%8 == 0 && valueSize%8 == 0
}

// scanBlock is the threads and bytes of shared memory of a block that goes through chunks that take so many bytes; split: with two warpgroups on Hopper.
func scanBlock(l *kernels.Loader, chunk int, split bool) (threads, shared int) {
	switch {
	case !l.Hopper():
		return 192, 2*chunk + slack
	case split:
		return 384, 3*chunk + slack
	}
	return 192, 3*chunk + slack
}

// slots is how many places for chunks a step's sequences may take.
func slots(tokens, seqs int) int { return tokens/chunk + seqs }

// chunkScratch is the memory for what is prepared of the chunks of steps of up to so many tokens and sequences, in bytes.
func chunkScratch(tokens, seqs, heads, prepared int) int64 {
	return int64(slots(tokens, seqs)) * int64(heads) * int64(prepared)
}
