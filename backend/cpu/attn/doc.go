// Package attn computes attention over a paged cache on one thread: FlashAttention-2 (Dao, arXiv:2307.08691) on vectors.
//
// # Layout
//
// A page of the cache is a sequence of blocks of 16 tokens. In a block, each head has its keys transposed, [size][16 tokens],
// and then its values, [16 tokens][size]. A lane of a vector is thus one key when scores are computed and one dimension
// of the output when values are summed, so that nothing is ever added across lanes, and both are the same product:
// out[m][·] += Σ_k a[m][k]·b[k][·] with a broadcast. Bytes lie in groups of four, which integer instructions multiply at
// once: see int8Kernels.
//
// # Q tiles, key tiles and KV segments
//
// A Tile is up to some 96 rows of Q: query tokens times the query heads that share a key head (GQA), all attending to the same
// keys. It computes 64 keys at a time, a key tile; with many rows the keys and values are first converted to float32 in scratch (32
// KiB for heads of 64), with few they are read from the cache.
//
// Keys are split into segments of 256 (split-KV), counted from the start of the sequence; each segment has its own running maximum
// and sum, and the results of segments are totalSum in order. Every sum thus runs in an order that depends on the query's
// position alone, so that no bit of the result depends on which thread computes which segments, on what else is in the
// batch, on how a prompt was chunked, or on whether several sequences with the same pages were computed together.
//
// # The limits
//
// A pair of query and key of heads of size d takes 4 d float operations, so a prefill takes 4·d·heads·pairs / peak: 0.19
// Tflop/s a core on a 3 GHz Emerald Rapids (Peak in package gemm measures it). The softmax itself is about 14 vector
// operations for 16 pairs beside their 128 for d = 64, so 88 % of the peak is the ceiling there, 94 % for d = 128. A decode
// step reads its cache rows once, and takes bytes / bandwidth. Four query heads that share a key head need 8 VPDPBUSD for 64
// bytes, 4 cycles, where memory takes 12 to bring them on that machine; the conversion to floats took as long as that.
//
// The assembly is written by tools/asm/attn, with avo and, for arm64, with tools/asm/arm; `make generated` demands that it is
// what is checked in.
package attn

//go:generate go run -C ../../../tools ./asm/attn ../backend/cpu/attn
