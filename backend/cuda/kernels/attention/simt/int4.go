package simt

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Int4Params mirrors Int4AttendParams of int4.cu: attention over a cache in four bits.
type Int4Params struct {
	Step                         kernels.Step
	Q, Cache, Newest             driver.Ptr // [T, Heads × KSize]; pages, see kv_int4.h; those of the residual cache, IEEE halves
	NewestPages                  driver.Ptr // [S × SeqPages] int32, which of these are a sequence's
	Y, Sinks                     driver.Ptr // [T, Heads × VSize]; [Heads] float32, scores without a key, or 0
	TreeLen, Ancestors           driver.Ptr // [S] int32 and [T] uint64, see backend.Batch; 0 without token trees
	Heads, KVHeads, KSize, VSize int32
	Window                       int32   // as Params has it
	Scale, Softcap               float32 // of scores; Softcap 0: none
	OnlyTrees                    int32   // 1: rows of sequences without a token tree are another kernel's
}

// FindInt4 gets the kernel for queries of a type.
func FindInt4(l *kernels.Loader, q graph.Type) (*driver.Kernel, error) {
	return l.Kernel("attention/simt/int4", kernels.Name("attention", q, graph.I4), 0)
}

// LaunchInt4 puts it on the stream, as Launch does.
func LaunchInt4(s *driver.Stream, k *driver.Kernel, rows int, p *Int4Params) error {
	return driver.Launch(s, k, grid(rows, int(p.Heads), int(p.VSize)), p)
}
