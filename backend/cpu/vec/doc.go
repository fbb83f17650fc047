// Package vec has the CPU's vector kernels on rows of float32: sums, norms, activation functions, RoPE rotations,
// conversions, and the steps of recurrent states. Their arithmetic intensity is one or two operations a number read, so the
// limit is memory bandwidth: that of the L1 cache for a row that was just written.
//
// Silu and tanh are accurate to 2 ulp; gelu by erf to 4, its negative tail included; gelu by tanh to 80 ulp at -9, where it is 1e-30 of its argument
// and exp magnifies the rounding of x³ (TestActs). Results of different tiers differ by as much; those of one tier do not depend on where a number
// lies in its row, except for sums, whose order depends on the row's length alone.
//
// The assembly is written by tools/asm/vec, with avo and, for arm64, with tools/asm/arm; `make generated` demands that it is
// what is checked in.
package vec

//go:generate go run -C ../../../tools ./asm/vec ../backend/cpu/vec
