// Package kv4 is KV caches in four bits (KIVI, Liu et al., arXiv:2402.02750; see kv_int4.h for the layout): keys and values are stored in the residual cache as IEEE halves,
// groups of tokens are quantised as their last one is stored, and a prompt's pages are dequantised to IEEE halves for the prefill kernels, which read no others.
package kv4

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

const (
	// MaxSize is the largest head.
	MaxSize = 256

	threads           = 128
	queryHeads        = threads / 32 // of a block
	dequantiseThreads = 256
)

// Newest is the residual cache as kernels that write it see it, with the page table and the slots of its cache group.
type Newest struct{ Cache, Pages, Slots driver.Ptr }

// StoreParams mirrors StoreParams of kv4.cu. Heads and Dim are 0 where keys and values are only stored.
type StoreParams struct {
	Step                                       kernels.Step
	Newest                                     Newest
	Q, K, V                                    driver.Ptr // [T, Heads × Size], [T, KVHeads × Size], [T, KVHeads × VSize]
	Angles                                     driver.Ptr // [T, Dim/2 × 2] float32: cosine and sine of each pair
	Y, Cache                                   driver.Ptr // Y: [T, Heads × Size], after rope; it may be Q
	Heads, KVHeads, Size, VSize, Dim, Adjacent int32
}

// Store finds the kernel with rope and KV cache write of rows of a type.
func Store(l *kernels.Loader, from graph.Type) (*driver.Kernel, error) {
	return l.Kernel("quant/kv4/kv4", kernels.Name("store", from), 0)
}

// LaunchStore puts it on the stream: a block a row and key head, and a warp a query head.
func LaunchStore(s *driver.Stream, k *driver.Kernel, rows int, p *StoreParams) error {
	y := int(p.KVHeads) + (int(p.Heads)+queryHeads-1)/queryHeads
	return driver.Launch(s, k, driver.Grid{X: rows, Y: y, Threads: threads}, p)
}

// DequantiseParams mirrors DequantiseParams of kv4.cu.
type DequantiseParams struct {
	Step                        kernels.Step
	Cache, Pages16              driver.Ptr // Pages16: pages of kv8.PageSize tokens in IEEE halves
	Table                       driver.Ptr // [sequences × Pages] int32, which of these are a sequence's
	Heads, KSize, VSize, Window int32
	FirstSeq, Pages             int32 // the first sequence to dequantise; dequantised pages of the longest
}

// Dequantise finds the kernel that dequantises the whole groups of sequences with several new tokens.
func Dequantise(l *kernels.Loader) (*driver.Kernel, error) {
	return l.Kernel("quant/kv4/kv4", "dequantise", 0)
}

// LaunchDequantise puts it on the stream for seqs sequences, of which the longest takes p.Pages dequantised pages.
func LaunchDequantise(s *driver.Stream, k *driver.Kernel, seqs int, p *DequantiseParams) error {
	return driver.Launch(s, k, driver.Grid{X: int(p.Pages), Y: seqs, Threads: dequantiseThreads}, p)
}
