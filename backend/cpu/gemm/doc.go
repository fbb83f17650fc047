// Package gemm multiplies weights in any number format with activations: pure functions over ranges of rows, one
// thread each, that allocate nothing. Everything is out[m][n] = Σ_k act[m][k] · w[n][k], with w row-major [N, K] as files
// have it.
//
// # The limits, for one core
//
// A VPDPBUSD multiplies 64 bytes and adds fours of them: 128 operations. Sapphire and Emerald Rapids and Zen 5 issue two
// a cycle, so 256 operations a cycle is the integer peak: 0.77 Top/s at the 3.0 GHz measured on the Emerald Rapids this
// was written on, 1.05 on a Zen 5. Two 512-bit FMA a cycle make 64 float operations: 0.19 Tflop/s. VDPBF16PS is twice
// that on Zen 5, and half of it on Emerald Rapids. A core reads 16 to 28 GB/s, five to nine bytes a cycle, so that up to
// about 20 rows of activations a 4-bit matrix takes the time it takes to read it; beyond, it takes 2·m·n·k / peak.
// The peaks are measured by Peak and PeakRead, and BenchmarkMul reports fractions of them.
//
// # Quantised weights: interleaved, unsigned, once
//
// Activations are quantised on the fly, each block of 32 to signed bytes with a float scale ("lines", see ActFormat).
// Weights are repacked once, in units of 32 rows (Granule), each unit taking exactly the bytes it took in the file:
// first all scales, [block][32 rows], then all codes, [block][plane][32 rows][4 k] (see formID). A lane of a vector is
// then one output feature, an activation is broadcast to all, and no sum ever crosses lanes. VPDPBUSD wants one side
// unsigned: every format's codes become bytes that are 128 too large (5 bits are moved to the top of the byte, and the
// scale divided by 8, and so on), and -128 Σ act, known from the line, is what the integer sums start from: the
// correction is free, and all formats share one kernel skeleton. The sums start from the bits of 1.5·2²³ as well, so that
// they are floats without conversion.
//
// A tile is 6 rows of activations × 32 features: 12 integer and 12 float sums, of 32 registers. A block of 32 k costs
// 96 VPDPBUSD, and then 12 × 2 float operations (times the weights' scale, times the activations'), so that 79 % of the
// integer peak is the ceiling (66 % where scales stand for 16 weights, 72 % where there are minima, which are one more
// multiply-add); loads are 1 for every 1.2 VPDPBUSD, below the two that a cycle allows. Narrow machines do 3 × 16 with
// 16 registers. The kernels reach 70 % of the peak from a warm cache (a block takes 66 cycles, not 61, and beginning and
// ending a tile of 32 blocks 90), and 66 % in products of 512 rows with weights and outputs from memory, on both cores.
//
// Scales and minima are expanded to float32 in scratch a chunk at a time, so that one dot kernel serves every layout of
// scales. Up to three tiles of activations, kernels unpack codes in registers; from four on (decode batches of 19 and
// more, prefill), codes are first unpacked to bytes in a 32 KiB panel (32 rows × 1,024 k) that stays in the first-level
// cache while the tiles of up to 258 rows pass by, whose activations stay in the second. All the while memory is read
// ahead (see fetching): a core that computes and reads in turns would take the sum of both times. Wide machines walk over
// six tiles or more in one call (tileFunc), which also calls for the next tile's part of out: its rows lie pages apart, and
// waiting for them took a fifth of a whole product's time.
//
// # Float weights: as they lie
//
// For few rows of activations vectors run along k in the weights' own layout, four rows at a time; from four tiles of
// activations on, 32 rows × 256 k are interleaved into a panel of float32 (or of bf16 pairs, for VDPBF16PS), and a tile
// is again 6 × 32: 12 FMA for 8 loads, 93 to 98 % of the peak from a warm cache. The activations of a pass (510 rows ×
// 256 k) are copied together first. Nothing is kept, so float weights cost no memory beyond the mapped file.
//
// The assembly is written by tools/asm/gemm with avo; TestGenerated demands that it is what is checked in.
package gemm

//go:generate go run -C ../../../tools ./asm/gemm ../backend/cpu/gemm
