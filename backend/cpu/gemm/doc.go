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
// 16 registers, and 6 × 16 with the float sums in memory where there are many rows: 12 integer sums hide the latency that six do
// not, 68 instead of 60 % of the peak of the 256-bit VPDPBUSD. AVX2 alone has VPMADDUBSW, whose sums of two products
// saturate at 16 bits; but codes of four bits leave room for sixteen products, five bits for eight and six bits for four, so
// that tiles unpack them to such small numbers (see tools/asm/gemm's lowForm) and VPMADDWD comes once in a while: 49 % of the
// peak of VPMADDUBSW for Q4_0, 36 % for Q6_K and 27 % for bytes, whose signs must be exchanged for each product.
//
// Wide kernels reach 70 % of the peak from a warm cache (a block takes 66 cycles, not 61, and beginning and ending a tile
// of 32 blocks 90), and 66 % in products of 512 rows with weights and outputs from memory, on both cores.
//
// Scales and minima are expanded to float32 in scratch a chunk at a time, so that one dot kernel serves every layout of
// scales. Up to three tiles of activations, kernels unpack codes in registers; from four on (prefill), codes are first
// unpacked to bytes in a 32 KiB panel (32 rows × 1,024 k) that stays in the first-level
// cache while the tiles of up to 258 rows pass by, whose activations lie one behind the other (TiledActs) and stay in the second. All the while memory is read
// ahead (see fetching): a core that computes and reads in turns would take the sum of both times. Wide machines walk over
// six tiles or more in one call (tileFunc), which also calls for the next tile's part of out: its rows lie pages apart, and
// waiting for them took a fifth of a whole product's time.
//
// From 36 rows on, wide machines round codes of up to six bits once more, to bytes whose scales stand for 64 or 128 numbers, and activations
// likewise (WideActs): a block of 128 k costs 384 VPDPBUSD and 24 float operations, 94 % of the peak, in every such format. They reach 80 %
// from cache; docs/adr/004 has what that loses in precision. Q8_0 takes the same way with its own scales, every 32.
//
// Decode batches of 7 to 35 rows have kernels of their own on wide machines (batchFunc): registers hold the codes of
// a block of 32 k × 32 features, unpacked once, and the rows pass by up to six at a time, with their float sums in memory; their
// activations lie block by block, [block][row]. Of Q4_0, a block is 26 operations to unpack and 20 a row, 13 + 10 m cycles for m
// rows. From the first-level cache it takes 187 cycles for 16 rows and 361 for 32, 69 and 71 % of the peak (Q6_K 259 and 482); in whole
// products from memory, on both cores, 224 and 403.
//
// # Float weights: as they lie
//
// For few rows of activations vectors run along k in the weights' own layout, four rows at a time; from four tiles of
// activations on, 32 rows × 256 k are interleaved into a panel of float32 (or of bf16 pairs, for VDPBF16PS), and a tile
// is 12 × 32 on wide machines: 24 FMA for 14 loads (6 × 32 elsewhere, 93 to 98 % of the peak from a warm cache). The
// activations of a pass (516 rows × 256 k, so that a chunk of 512 tokens is one) are copied together first. Nothing is kept,
// so float weights cost no memory beyond the mapped file.
//
// # arm64
//
// The packed memory is the same: a word of a plane is four k of a row, which is what SDOT takes, and its product by element
// broadcasts the activation for nothing. Its signs must be equal, so codes are made signed as they are unpacked. Kernels
// take 8 to 32 of the 32 rows at a time and go over the others in an outer loop. With 32 registers of four words, a
// tile is 6 rows of activations × 8 features: 12 integer and 12 float sums (6 × 16 for floats, 24 sums). Neoverse N1
// issues two vector operations a cycle beside two loads, V1, V2 and Apple's large cores four beside three; SDOT, SMMLA, FMLA
// and BFMMLA are one each, with a latency that 12 sums hide (Arm's Software Optimization Guides for N1, V1 and V2; LLVM's
// AArch64SchedNeoverse*.td states them per instruction; Dougall Johnson's tables for the M1). Conversions of integers and
// LD1R cost twice on some of them, so sums start as floats, as above, and broadcasts are by element. What a
// turn of the innermost loops is made of (TestCounts):
//
//	tile                  instructions   that multiply   others in vector pipes   multiply-adds   an instruction
//	SDOT, 6 × 8           190             96              48                      1,536            8.1
//	SMMLA, 6 × 8          167             48              73                      1,536            9.2
//	SMULL, 3 × 8          239             96              108                       768            3.2
//	SDOT, 1 × 32, Q4_0    239             64              128                     1,024            4.3
//	SDOT, 1 × 32, Q8_0    240             64              96                      1,024            4.3
//	FMLA, 6 × 16          127             96              0                         384            3.0
//	BFMMLA, 6 × 16        113             48              22                        768            6.8
//
// So with four vector pipes the ceiling is 67 % of the SDOT peak (96 of 144), 40 % of SMMLA's, twice as high, 100 % of
// FMLA's and 69 % of BFMMLA's, four times as high. Scaling every 32 k is what SMMLA cannot outrun: it does 19 % more a
// cycle than SDOT, and nothing where codes are unpacked in registers, so those are left to SDOT. None of this was timed: it was
// written without such a machine, and tested under qemu.
//
// The assembly is written by tools/asm/gemm, with avo and, for arm64, with tools/asm/arm; TestGenerated demands that it is
// what is checked in.
package gemm

//go:generate go run -C ../../../tools ./asm/gemm ../backend/cpu/gemm
