// A warp's ring of units on their way from memory.
#pragma once
#include "unit.h"

// fetchUnit asks for a unit; it comes with the next group of copies.
template <int UNIT> DEVICE void fetchUnit(u32 to, const u8* from) {
  u32 to16 = to + lane() * 16;
  const u8* from16 = from + lane() * 16;
  UNROLL for (int i = 0; i < ceilDiv(UNIT, 512); i++)
    if (UNIT % 512 == 0 || i < UNIT / 512 || lane() < UNIT % 512 / 16)
      asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to16 + i * 512), "l"(from16 + i * 512) : "memory");
}

// Pipe is a ring of DEPTH units in shared memory that one warp fills and reads. The units of the first round are asked for by first, one by
// one; then each is waited for, read, and its place given to the one DEPTH further by again, where there is one. asked ends both, with or
// without a unit; next goes on to the next place.
template <int UNIT, int DEPTH> struct Pipe {
  u32 ring, place;
  DEVICE void init(u32 units) { ring = place = units; }
  DEVICE void first(int i, const u8* from) { fetchUnit<UNIT>(ring + i * UNIT, from); }
  DEVICE void again(const u8* from) { fetchUnit<UNIT>(place, from); }
  DEVICE void asked() { cpAsyncCommit(); } // also where there is nothing left to ask for: what has come is known by counting
  DEVICE void wait() {
    cpAsyncWait<DEPTH - 1>();
    warpBarrier();
  }
  DEVICE void next() {
    if ((place += UNIT) == ring + DEPTH * UNIT) place = ring;
  }
};
