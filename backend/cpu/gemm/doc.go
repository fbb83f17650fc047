// Package gemm is the CPU's GEMM and GEMV: it multiplies weights in any number format with activations, in pure functions over
// ranges of rows, one thread each, that allocate nothing. Everything is out[m][n] = Σ_k act[m][k] · w[n][k], with w
// row-major [N, K] as files have it. Blocking and names follow BLIS: panels of NR rows of weights, tiles of MR rows of
// activations, K-blocks of kc.
//
// # The limits, for one core
//
// A VPDPBUSD multiplies 64 bytes and adds groups of four products: 128 operations. Sapphire and Emerald Rapids and Zen 5 issue two
// a cycle, so 256 operations a cycle is the integer peak: 0.77 Top/s at the 3.0 GHz measured on the Emerald Rapids this
// was written on, 1.05 on a Zen 5. Two 512-bit FMA a cycle make 64 float operations: 0.19 Tflop/s. VDPBF16PS is twice
// that on Zen 5, and half of it on Emerald Rapids. A core reads 16 to 28 GB/s, five to nine bytes a cycle, so that up to
// about 20 rows of activations a 4-bit matrix takes the time it takes to read it; beyond, it takes 2·m·n·k / peak.
// The peaks are measured by Peak and PeakRead, and BenchmarkMul reports fractions of them.
//
// # Quantised weights: packed panels of unsigned bytes
//
// Activations are quantised on the fly, each block of 32 to signed bytes with a float scale ("Q8 blocks", see ActFormat).
// Weights are repacked once, in panels of NR = 32 rows, each panel taking exactly the bytes its rows took in the file:
// first all scales, [block][32 rows], then all codes, [block][plane][32 rows][4 k] (see codeLayout). A lane of a vector is
// then one output feature, an activation is broadcast to all, and no sum ever crosses lanes. VPDPBUSD (VNNI) wants one side
// unsigned: every format's codes become bytes with an offset of 128 (5 bits are moved to the top of the byte, and the
// scale divided by 8, and so on), and -128 Σ act, known from the Q8 block, is what the integer sums start from: the
// correction is free, and all formats share one micro-kernel skeleton. The sums start from the bits of 1.5·2²³ as well, so that
// they are floats without conversion.
//
// With AVX-512 a micro-kernel is MR × NR = 6 rows of activations × 32 features: 12 integer and 12 float accumulators, of 32
// registers. A block of 32 k costs 96 VPDPBUSD, and then 12 × 2 float operations (times the weights' scale, times the
// activations'), so that 79 % of the integer peak is the ceiling (66 % where scales stand for 16 weights, 72 % where there are
// minima, which are one more multiply-add); loads are 1 for every 1.2 VPDPBUSD, below the two that a cycle allows. AVX2
// machines compute 3 × 16 with 16 registers, and 6 × 16 with the float sums in memory where there are many rows: 12 integer
// sums hide the latency that six do not, 68 instead of 60 % of the peak of the 256-bit VPDPBUSD. AVX2 without VNNI has
// VPMADDUBSW, whose sums of two products saturate at 16 bits; but codes of four bits leave room for sixteen products, five
// bits for eight and six bits for four, so kernels take them right-aligned, as such small numbers (see tools/asm/gemm's
// lowLayout), and widen with VPMADDWD only every few groups: two instructions for 32 products where moving signs takes four. A byte is two
// such codes, and takes four, but of two multiplications where signs take three of the same ports; in tiles of many rows bytes are multiplied as words by
// VPMADDWD (words.go), four as well, but with nothing to widen. From cache 256 rows reach 58 % of the
// peak of VPMADDUBSW for Q4_0 on Zen 4, and 36 % for bytes on Zen 5, whose ceiling is 50, and 44 with the scales. Up to six rows codes are unpacked in registers;
// a row then takes 32 cycles a block of 32 × 32 for four rows of Q4_0, and 50 alone, with all 32 features in a call.
//
// AVX-512 kernels reach 70 % of the peak from a warm cache (a block takes 66 cycles, not 61, and the prologue and epilogue of a
// tile of 32 blocks 90), and 66 % in matmuls of 512 rows with weights and outputs from memory, on both cores.
//
// Scales and minima are expanded to float32 in scratch a K-block at a time, so that one dot kernel serves every layout of
// scales. Up to three tiles of activations, kernels unpack codes in registers; from four on (prefill), codes are first
// unpacked to bytes in a 32 KiB panel (32 rows × kc = 1,024 k) that stays in the L1 cache while the tiles of up to mc = 258
// rows pass by, whose activations are stored sequentially (TiledActs) and stay in the L2 cache. Memory is prefetched all the
// while (see prefetcher and tilePrefetch): a core that computes and reads alternately would take the sum of both times. On
// AVX-512, one call of a kernel walks over six tiles or more (tileFunc), and prefetches the next tile's part of out: its rows
// lie pages apart, and waiting for them took a fifth of a whole matmul's time.
//
// From 36 rows on, machines with AVX-512 requantize codes of up to six bits, to bytes with one scale for 64 or 128 numbers, and
// activations with per-group scales likewise (GroupedActs), and from 18 on those with AVX-VNNI, which have no kernels for batches: a block of 128 k costs 384 VPDPBUSD and 24 float operations, 94 % of
// the peak, in every such format. They reach 80 % from cache, and on Zen 5 with AVX-VNNI 82 (Q6_K) to 89 (Q4_0), where scales every 32 left 59 to 75; docs/adr/004 has what that loses in precision. Q8_0 takes the same
// path with its own scales, every 32.
//
// AVX2 without VNNI takes the same groups of activations, but codes of up to six bits stay what they are: VPMADDWD, which widens sums of
// 16 bits anyway, multiplies by whole numbers that blocks' scales are of the group's, of up to 12 bits for codes of four, and what codes and minima are
// off by is multiplied with the sums of the activations' bytes, in whole numbers as well, once for a group.
// Sums of five and six bits start as if codes were signed, which leaves room in 16 bits for all products of a scale. Of each of the 24 vectors of a tile a block of
// 32 takes eight VPMADDUBSW and 1.5 VPMADDWD on two ports, where floats every 32 take two multiplications more: the ceiling is 80 % of the peak of
// VPMADDUBSW for codes of four bits instead of 72. Processors of Intel's have three ports for all of that and the additions in 16 bits: 61 % of the peak. A panel
// is unpacked half by half, 16 KiB that stay in any L1 cache, with two stores to each line, and the last tile has 2, 4 or 6 rows. On Zen 5, from cache, 256 rows reach 67 % with Q4_0 and Q4_K (62 and 56 before), 58 with Q5_K, Q3_K and Q2_K (52, 49, 43), 55 with Q6_K (42).
//
// Decode batches of 7 to 35 rows have weight-stationary kernels with AVX-512 and with AVX2 (batchFunc). With AVX-512 registers hold the codes of
// a block of 32 k × 32 features, unpacked once, and the rows stream by up to six at a time, with their float sums in memory;
// their activations are stored [block][row]. Of Q4_0, a block is 26 operations to unpack and 20 a row, 13 + 10 m cycles for m
// rows. From the L1 cache it takes 187 cycles for 16 rows and 361 for 32, 69 and 71 % of the peak (Q6_K 259 and 482); in whole
// matmuls from memory, on both cores, 224 and 403. With AVX2 registers hold the codes of 16 features × 16 k, and sums of 16 bits wait in memory for the other 16 k; bytes, of
// which activations are made words for each call, 8 k. For a row and block of 32 × 32 of Q4_0 that is 76 operations on Intel's three ports, 25.3 cycles (8 VPMADDUBSW, 7 VPADDW, and 4 to
// widen and scale, of each of four vectors), and 96 for six bits, 136 for bytes. Emerald Rapids takes 26.5 and 64 cycles a block beside: 34.8, 31.0 and 29.6 with 8, 16 and 32 rows.
//
// # Float weights: row-major, as in the file
//
// For few rows of activations vectors run along k in the weights' own layout, four rows at a time, for up to six rows of
// activations (three with 16 registers); from 34 rows of activations on (67 with AVX-512, 19 for bf16 pairs), 32 rows × 256 k are interleaved into a panel of float32 (or of bf16 pairs, for VDPBF16PS), and a tile
// is 12 × 32 with AVX-512: 24 FMA for 14 loads (6 × 32 elsewhere, 93 to 98 % of the peak from a warm cache). The
// activations of a pass (516 rows × 256 k, so that a prefill chunk of 512 tokens is one) are packed first. Nothing is kept,
// so float weights cost no memory beyond the mapped file.
//
// # arm64
//
// The packed memory is the same: a word of a plane is four k of a row, which is what SDOT takes, and its product by element
// broadcasts the activation for nothing. Both operands must be signed, so codes are made signed as they are unpacked. Kernels
// compute 8 to 32 of the 32 rows at a time, in an outer loop. With 32 registers of four words, a
// tile is 6 rows of activations × 8 features: 12 integer and 12 float sums (6 × 16 for floats, 24 sums). Neoverse N1
// issues two vector operations a cycle beside two loads, V1, V2 and Apple's large cores four beside three; SDOT, SMMLA, FMLA
// and BFMMLA are one each, with a latency that 12 sums hide (Arm's Software Optimization Guides for N1, V1 and V2; LLVM's
// AArch64SchedNeoverse*.td states them per instruction; Dougall Johnson's tables for the M1). Conversions of integers and
// LD1R cost twice on some of them, so sums start as floats, as above, and broadcasts are by element. The instructions of one
// iteration of the innermost loops (TestCounts):
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
// FMLA's and 69 % of BFMMLA's, four times as high. Applying scales every 32 k limits SMMLA: it does 19 % more a
// cycle than SDOT, and nothing where codes are unpacked in registers, so those are left to SDOT. None of this was timed: it was
// written without such a machine, and tested under qemu.
//
// The assembly is written by tools/asm/gemm, with avo and, for arm64, with tools/asm/arm; `make generated` demands that it is
// what is checked in.
package gemm

//go:generate go run -C ../../../tools ./asm/gemm ../backend/cpu/gemm
