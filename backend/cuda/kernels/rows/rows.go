// Package rows moves whole rows: embedding lookup, the selection of rows whose logits are wanted, and the KV cache write.
package rows

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// EmbedParams mirrors EmbedParams of rows.cu.
type EmbedParams struct {
	Step       kernels.Step
	Table, Y   driver.Ptr // [vocab, N] and [T, N]; Y is scaled
	PrevTokens driver.Ptr // [samples of the previous step] int32: the tokens that it sampled
	Index      driver.Ptr // [T] int32, rows of the table: the step's tokens, positions or segments
	N          int32
	Scale      float32
	Known      int32 // rows of the table where others look up its first; 0: all ids have one
	First      int32 // of a table that is divided by rows: the ids that it has, of which others give rows of 0
	Held       int32 // 0: the table is whole
	_          int32
}

// SelectParams mirrors SelectParams of rows.cu.
type SelectParams struct {
	Step  kernels.Step
	X, Y  driver.Ptr // [T, Words], [logits, Words]
	Words int32      // in a row, of the size that Select says
	_     int32
}

// KVWriteParams mirrors KVWriteParams of rows.cu.
type KVWriteParams struct {
	Step        kernels.Step
	K, V, Cache driver.Ptr // [T, KLen], [T, VLen], pages; see kv_cache.h
	KLen, VLen  int32
}

const rowThreads = 256

// Embed finds the kernel for a table and result of these types.
func Embed(l *kernels.Loader, table, to graph.Type) (*driver.Kernel, error) {
	return l.Kernel("rows/rows", kernels.Name("embed", table, to), 0)
}

// Select finds the kernel that copies selected rows of so many bytes, an even number, and how many of the words it copies they are.
func Select(l *kernels.Loader, rowBytes int64) (k *driver.Kernel, words int32, err error) {
	if rowBytes%4 != 0 {
		k, err = l.Kernel("rows/rows", "select_u16", 0)
		return k, int32(rowBytes / 2), err
	}
	k, err = l.Kernel("rows/rows", "select_u32", 0)
	return k, int32(rowBytes / 4), err
}

// KVWrite finds the kernel that writes keys and values of one type in a cache of another.
func KVWrite(l *kernels.Loader, from, cache graph.Type) (*driver.Kernel, error) {
	return l.Kernel("rows/rows", kernels.Name("kv_write", from, cache), 0)
}

// Launch puts one of the kernels on the stream, a block a row.
func Launch[P EmbedParams | SelectParams | KVWriteParams | LatentWriteParams](s *driver.Stream, k *driver.Kernel, rows int, p *P) error {
	return driver.Launch(s, k, driver.Grid{X: rows, Threads: rowThreads}, p)
}
