// Package norm normalises rows: RMSNorm of whole rows or of each head, and LayerNorm.
package norm

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Params mirrors NormParams of norm.cu.
type Params struct {
	X, Add, Sum     driver.Ptr // [Rows, Groups × N]; Add, to which X is added first, and Sum, which receives that, may be 0
	Weight, Bias    driver.Ptr // [N] float32; Bias may be 0
	Y, YScale       driver.Ptr // [Rows, Groups × N]; of rounded rows [Rows] float32: what their numbers count
	Rows, N, Groups int32      // Groups: of a row, N numbers each, that are normalised one by one
	Eps             float32
	OwnWeights      int32      // 1: each group has weights of its own, [Groups, N]
	Of              int32      // a row is a part of one of so many numbers; 0: it is whole
	Squares         driver.Ptr // [Rows] float32 of such parts: the sums of the squares of the whole rows
	Gate            driver.Ptr // [Rows, Groups × N], of Gated
	Fn, _           int32      // of a gate, Silu or Sigmoid: graph.Fn
}

// Kernel is one of the family, for rows of one length.
type Kernel struct {
	kernel  *driver.Kernel
	threads int
	groups  bool
}

// wideMax is the longest row of the kernel that keeps a row in registers: 1024 threads × 8 numbers.
const wideMax = 8192

// gatedMax is the largest group of Gated, whose warp keeps it in registers.
const gatedMax = 512

// RMS normalises whole rows of n numbers.
func RMS(l *kernels.Loader, t graph.Type, n int) (*Kernel, error) {
	if t == graph.BF16 && wide(n) {
		k, err := l.Kernel("norm/norm", "rms_bf16_wide", 0)
		return &Kernel{kernel: k, threads: roundUp(n/8, 32)}, err
	}
	k, err := l.Kernel("norm/norm", kernels.Name("rms", t), 0)
	return &Kernel{kernel: k, threads: rowThreads(n)}, err
}

// RMSOfShard normalises parts of rows by the sums of squares in Params.Squares; of n numbers.
func RMSOfShard(l *kernels.Loader, t graph.Type, n int) (*Kernel, error) {
	k, err := l.Kernel("norm/norm", kernels.Name("rms", t), 0)
	return &Kernel{kernel: k, threads: rowThreads(n)}, err
}

// FitsRounded reports whether Rounded has a kernel for rows of n numbers.
func FitsRounded(n int) bool { return wide(n) }

func wide(n int) bool { return n%8 == 0 && n <= wideMax }

// Rounded is RMS of BF16 rows whose result is rounded to numbers of eight bits, F8 or I8, with a scale a row, for rows of n that
// FitsRounded.
func Rounded(l *kernels.Loader, to graph.Type, n int) (*Kernel, error) {
	k, err := l.Kernel("norm/norm", kernels.Name("rms_bf16_wide", to), 0)
	return &Kernel{kernel: k, threads: roundUp(n/8, 32)}, err
}

// GroupRMS normalises each group of a row by itself.
func GroupRMS(l *kernels.Loader, t graph.Type) (*Kernel, error) {
	k, err := l.Kernel("norm/norm", kernels.Name("rms_group", t), 0)
	return &Kernel{kernel: k, threads: 128, groups: true}, err
}

// FitsGated reports whether Gated has a kernel for groups of n numbers.
func FitsGated(n int) bool { return n%4 == 0 && n <= gatedMax }

// Gated is GroupRMS of BF16 rows whose result, rounded, is multiplied by a function of Params.Gate, for groups of n that FitsGated.
func Gated(l *kernels.Loader) (*Kernel, error) {
	k, err := l.Kernel("norm/norm", "rms_group_gated_bf16", 0)
	return &Kernel{kernel: k, threads: 128, groups: true}, err
}

// Layer is LayerNorm of rows of n numbers.
func Layer(l *kernels.Loader, t graph.Type, n int) (*Kernel, error) {
	k, err := l.Kernel("norm/norm", kernels.Name("layer", t), 0)
	return &Kernel{kernel: k, threads: rowThreads(n)}, err
}

// Launch puts the kernel on the stream for p.Rows rows.
func (k *Kernel) Launch(s *driver.Stream, p *Params) error {
	blocks := int(p.Rows)
	if k.groups {
		blocks = (int(p.Rows)*int(p.Groups)*32 + k.threads - 1) / k.threads
	}
	return driver.Launch(s, k.kernel, driver.Grid{X: blocks, Threads: k.threads}, p)
}

func rowThreads(n int) int { return min(1024, roundUp(n, 32)) }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
