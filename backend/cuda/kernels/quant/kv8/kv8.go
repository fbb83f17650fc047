// Package kv8 is 8-bit KV caches (E4M3, or INT8 with a scale per head and token): keys and values are quantised as they are written, and a prompt's
// pages are dequantised to IEEE halves for the prefill kernels, which read no others.
package kv8

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

const (
	// MaxSize is the largest head.
	MaxSize = 256
	// PageSize is the tokens of a dequantised page, 2^PageShift.
	PageSize  = 1 << PageShift
	PageShift = 7

	threads       = 256
	headsPerBlock = threads / 32
)

// StoreParams mirrors StoreParams of kv8.cu. Heads and Dim are 0 where keys and values are only stored.
type StoreParams struct {
	Step                                       kernels.Step
	Q, K, V                                    driver.Ptr // [T, Heads × Size], [T, KVHeads × Size], [T, KVHeads × VSize]
	Angles                                     driver.Ptr // [T, Dim/2 × 2] float32: cosine and sine of each pair
	Y, Cache                                   driver.Ptr // Y: [T, Heads × Size], after rope; it may be Q
	Heads, KVHeads, Size, VSize, Dim, Adjacent int32
}

// Store finds the kernel with rope and quantising KV cache write of rows of one type to a cache of another, I8 or F8.
func Store(l *kernels.Loader, from, cache graph.Type) (*driver.Kernel, error) {
	return l.Kernel("quant/kv8/kv8", kernels.Name("store", from, cache), 0)
}

// LaunchStore puts it on the stream, a warp a head.
func LaunchStore(s *driver.Stream, k *driver.Kernel, rows int, p *StoreParams) error {
	heads := int(p.Heads + 2*p.KVHeads)
	return driver.Launch(s, k, driver.Grid{X: rows, Y: (heads + headsPerBlock - 1) / headsPerBlock, Threads: threads}, p)
}

// DequantiseParams mirrors DequantiseParams of kv8.cu.
type DequantiseParams struct {
	Step                        kernels.Step
	Cache, Pages16              driver.Ptr // Pages16: pages of PageSize tokens in IEEE halves
	Table                       driver.Ptr // [sequences × Pages] int32, which of these are a sequence's
	Heads, KSize, VSize, Window int32
	FirstSeq, Pages             int32 // the first sequence to dequantise; dequantised pages of the longest
}

// Dequantise finds the kernel that dequantises a cache of this type.
func Dequantise(l *kernels.Loader, cache graph.Type) (*driver.Kernel, error) {
	return l.Kernel("quant/kv8/kv8", kernels.Name("dequantise", cache), 0)
}

// LaunchDequantise puts it on the stream for seqs sequences, of which the longest takes p.Pages dequantised pages.
func LaunchDequantise(s *driver.Stream, k *driver.Kernel, seqs int, p *DequantiseParams) error {
	return driver.Launch(s, k, driver.Grid{X: int(p.Pages), Y: seqs, Threads: threads}, p)
}
