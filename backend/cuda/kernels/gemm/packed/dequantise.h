// Dequantisation of packed weights to bf16 in memory, for GEMMs of more rows than are worth dequantising in registers again for each tile of x.
#pragma once
#include "formats.h"
#include "sparse24.h"

struct DequantiseParams {
  const u8* w; // units of an [n, k] weight
  bf16* y;     // [n, k], or interleaved with another of its size: eight rows of each alternately (densesm90.Interleave)
  int n, k, interleaved, second;
};

// storeBlock stores a lane's numbers of a block of a row.
template <typename Q> DEVICE void storeBlock(const Q& q, int block, u8* to) {
  u32 pairs[4];
  dequantise(q, block, pairs);
  UNROLL for (int i = 0; i < 4; i++) *(u32*)(to + i * 16 + lane() % 4 * 4) = pairs[i];
}
DEVICE void storeBlock(const Sparse24& q, int block, u8* to) {
  u32 mine = q.places.x[block / 2] >> (block % 2 * 16), other = __builtin_bit_cast(u32, shuffleXor(__builtin_bit_cast(float, mine), 1));
  UNROLL for (int i = 0; i < 2; i++) {
    u32 places = (lane() % 2 == i ? mine : other) >> (lane() % 4 * 4), two = q.pair(block, i);
    *(u64*)(to + i * 32 + lane() % 4 * 8) = (u64)(two & 0xffff) << (places & 3) * 16 | (u64)(two >> 16) << (places >> 2 & 3) * 16;
  }
}

// A warp dequantises a unit. The lanes of a quad hold a row's columns by twos, so that the rows are put together in shared memory.
template <typename Q> DEVICE void dequantiseWeight(const DequantiseParams& p) {
  constexpr int WARPS = 8, PITCH = COLUMNS * 2 + 16;
  SHARED alignas(16) static u8 all[WARPS][2 * 8 * PITCH];
  launchDependentsAndWait();
  int units = unitsOf(p.k), unit = blockX() * WARPS + warp();
  if (unit >= units * ceilDiv(p.n, 16)) return;
  int tile = unit / units, column = unit % units;
  const u8* at = p.w + unitAt(tile, column, units) * (2 * Q::BYTES);
  u8* rows = all[warp()];
  UNROLL for (int h = 0; h < 2; h++) {
    Q q;
    q.load(InGlobal{at + h * Q::BYTES});
    UNROLL for (int block = 0; block < BLOCKS; block++) storeBlock(q, block, rows + (h * 8 + lane() / 4) * PITCH + block * 64);
  }
  warpBarrier();
  int k = column * COLUMNS + lane() % 16 * 8;
  UNROLL for (int i = 0; i < 8; i++) {
    int in = i * 2 + lane() / 16, row = tile * 16 + in;
    if (row >= p.n || k >= p.k) continue;
    if (p.interleaved) row = row / 8 * 16 + row % 8 + p.second * 8;
    *(Vec16*)(p.y + (long)row * p.k + k) = *(const Vec16*)(rows + in * PITCH + lane() % 16 * 16);
  }
}
