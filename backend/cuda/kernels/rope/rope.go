// Package rope is rotary position embedding (RoPE), alone or with the KV cache write.
package rope

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// AnglesParams mirrors AnglesParams of rope.cu.
type AnglesParams struct {
	Step               kernels.Step
	Frequencies        driver.Ptr // [Pairs] float32, or, with PerSequence 1, [sequences, Pairs]: radians a position
	Y                  driver.Ptr // [T, Pairs × 2] float32: cosine and sine, times Magnitude
	Axes               driver.Ptr // [Pairs] int32: the axis of each pair's positions; 0: there is one
	Pairs, PerSequence int32
	Magnitude          float32
	AxisStride         int32 // from a row's position on an axis to that on the next
}

// Params mirrors RopeParams of rope.cu.
type Params struct {
	X, Angles, Y               driver.Ptr // [rows, Heads × Size], [rows, Dim/2 × 2] float32, [rows, Heads × Size]
	Heads, Size, Dim, Adjacent int32
	From, _                    int32 // first number of a head that is rotated
}

// Angles finds the kernel that computes cosines and sines.
func Angles(l *kernels.Loader) (*driver.Kernel, error) { return l.Kernel("rope/rope", "angles", 0) }

// LaunchAngles puts it on the stream, a block a row.
func LaunchAngles(s *driver.Stream, k *driver.Kernel, rows int, p *AnglesParams) error {
	return driver.Launch(s, k, driver.Grid{X: rows, Threads: 128}, p)
}

// Rope finds the kernel for heads of type t.
func Rope(l *kernels.Loader, t graph.Type) (*driver.Kernel, error) {
	return l.Kernel("rope/rope", kernels.Name("rope", t), 0)
}

// LaunchRope puts it on the stream: a few blocks a row, a thread a pair.
func LaunchRope(s *driver.Stream, k *driver.Kernel, rows int, p *Params) error {
	const threads, pairsEach = 256, 2
	work := int(p.Heads) * int(p.Dim/2+p.Size-p.Dim)
	return driver.Launch(s, k, driver.Grid{X: rows, Y: (work + threads*pairsEach - 1) / (threads * pairsEach), Threads: threads}, p)
}

// RopeStoreParams mirrors RopeStoreParams of rope.cu.
type RopeStoreParams struct {
	Step                                      kernels.Step
	Q, K, V                                   driver.Ptr // [T, Heads × Size], [T, KVHeads × Size], [T, VLen] bf16
	Angles                                    driver.Ptr // [T, Dim/2 × 2] float32: cosine and sine of each pair
	Y, Cache                                  driver.Ptr // Y: [T, Heads × Size] bf16, queries after rope
	Heads, KVHeads, Size, VLen, Dim, Adjacent int32
}

// RopeStoreFits reports whether the kernel with rope of queries and keys and the KV cache write in one takes such heads.
func RopeStoreFits(size, dim, vLen int) bool { return dim%16 == 0 && (size-dim)%8 == 0 && vLen%8 == 0 }

// RopeStore finds the kernel with rope and the KV cache write for a cache of bf16 or f16; everything else is bf16.
func RopeStore(l *kernels.Loader, cache graph.Type) (*driver.Kernel, error) {
	return l.Kernel("rope/rope", kernels.Name("rope_store", cache), 0)
}

// LaunchRopeStore puts it on the stream.
func LaunchRopeStore(s *driver.Stream, k *driver.Kernel, rows int, p *RopeStoreParams) error {
	const threads = 256
	units := int(p.Heads+p.KVHeads)*int(p.Dim/16+(p.Size-p.Dim)/8) + int(p.VLen)/8
	return driver.Launch(s, k, driver.Grid{X: rows, Y: (units + threads - 1) / threads, Threads: threads}, p)
}
