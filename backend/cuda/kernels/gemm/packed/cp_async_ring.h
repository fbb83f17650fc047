// A warp's cp.async ring of units.
#pragma once
#include "formats.h"

// cpAsyncUnit starts the copy of a unit, as part of the next cp.async group.
template <int UNIT> DEVICE void cpAsyncUnit(u32 to, const u8* from) {
  u32 to16 = to + lane() * 16;
  const u8* from16 = from + lane() * 16;
  UNROLL for (int i = 0; i < ceilDiv(UNIT, 512); i++)
    if (UNIT % 512 == 0 || i < UNIT / 512 || lane() < UNIT % 512 / 16)
      asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to16 + i * 512), "l"(from16 + i * 512) : "memory");
}

// CpAsyncRing is a ring of DEPTH units in shared memory that one warp fills and reads. prologue starts the copies of the first DEPTH units, one by
// one; then each is waited for, read, and its place refilled with the unit DEPTH further, where there is one. commit ends the cp.async group of either,
// also of none; next goes on to the next place.
template <int UNIT, int DEPTH> struct CpAsyncRing {
  u32 ring, place;
  DEVICE void init(u32 units) { ring = place = units; }
  DEVICE void prologue(int i, const u8* from) { cpAsyncUnit<UNIT>(ring + i * UNIT, from); }
  DEVICE void refill(const u8* from) { cpAsyncUnit<UNIT>(place, from); }
  DEVICE void commit() { cpAsyncCommit(); } // also where there is no unit left: groups are waited for by their count
  DEVICE void wait() {
    cpAsyncWait<DEPTH - 1>();
    warpBarrier();
  }
  DEVICE void next() {
    if ((place += UNIT) == ring + DEPTH * UNIT) place = ring;
  }
};
