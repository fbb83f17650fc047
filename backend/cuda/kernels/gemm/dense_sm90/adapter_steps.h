// What adapters add, as further steps of a product behind those of k: y += B h, where h = A x of each row is a vector of the ranks of the row's own adapter. Rows
// lie in runs of one adapter each. A step brings B of some runs of the tile into the stage (units of 16 ranks), and h of all its rows; each eight rows multiply,
// with mma, the B of their own runs and no other. So B is read once for a tile, nothing goes through memory, and many adapters cost little more than their bytes.
#pragma once
#include "tile_scheduler.h"

namespace dense_sm90 {
#if __CUDA_ARCH__ >= 900
// NoSteps is a product without them.
struct NoSteps {
  static constexpr bool ANY = false;
  DEVICE bool has(int) const { return false; }
  DEVICE int ofProduct(int, int n) const { return n; }
  template <int BN, bool GATED> DEVICE void loadB(u32, const WorkTile&, int, u32) const {}
  template <int BN, bool GATED> DEVICE void loadH(u32, const WorkTile&, int, u32) const {}
  template <int BN, bool GATED, typename Sum> DEVICE void multiply(Sum (&)[BN / 2], u32, const WorkTile&, int) const {}
};

DEVICE u64 loadShared64(u32 at) {
  u64 v;
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(v) : "r"(at) : "memory");
  return v;
}
DEVICE int loadShared32(u32 at) {
  int v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}

// tmaLoadOften is tmaLoadBulk of what all blocks read.
DEVICE void tmaLoadOften(u32 to, const u8* from, int bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(EVICT_LAST) : "memory");
}

// Runs is a range of runs of rows.
struct Runs { int from, to; };

// AdapterStage is what an adapter's step has in the shared memory of a stage: UNITS of B, and of the tile's rows h, the run of each, and the runs of each eight.
template <int BN, bool GATED> struct AdapterStage {
  static constexpr int SIDES = GATED ? 2 : 1, UNIT = 128 * 32, H = BN * 32, RUNS = BN * 4, BLOCKS = BN / 8 * 8, TAIL = SIDES * H + RUNS + BLOCKS;
  static constexpr int UNITS = (W_BYTES + BN * BK * 2 - TAIL) / UNIT, AT_H = UNITS * UNIT, AT_RUNS = AT_H + SIDES * H, AT_BLOCKS = AT_RUNS + RUNS;
};

struct AdapterSteps {
  static constexpr bool ANY = true;
  TensorMap b[3];      // of each part [slots][n][ranks]; of a gated launch of gate and up
  const u8* h;         // [parts, or gate and up][passes][rows][16] bf16
  const int* slots;    // of each run
  const u8* runs;      // [rows] int32: the run of each, -1 without an adapter
  const Runs* blocks;  // [rows / 8] from the run of the first row with an adapter in it, or behind it, up to those that have begun before its end
  int first, each;     // the first of these steps, and how many a pass has
  int passes, rows;    // of 16 ranks of an adapter; that h has room for

  DEVICE bool has(int step) const { return step >= first; }
  DEVICE int ofProduct(int step, int n) const { return maxi(0, mini(n, first - step)); } // of n steps, those of k
  // of is which runs a step has of a tile.
  template <int BN, bool GATED> DEVICE Runs of(const WorkTile& at, int step) const {
    constexpr int UNITS = AdapterStage<BN, GATED>::UNITS;
    const Runs* block = blocks + at.xRow / 8;
    Runs r = {block[0].from + (step - first) % each * UNITS, block[BN / 8 - 1].to};
    r.to = mini(r.to, r.from + UNITS);
    return r;
  }
  // loadB loads a step's units of B, 128 rows of 32 bytes each: of a gated launch 64 of the gate's and 64 of up's. What lies outside is 0.
  template <int BN, bool GATED> DEVICE void loadB(u32 to, const WorkTile& at, int step, u32 bar) const {
    typedef AdapterStage<BN, GATED> Stage;
    Runs r = of<BN, GATED>(at, step);
    mbarrierExpectTx(bar, r.from < r.to ? (r.to - r.from) * Stage::UNIT + Stage::TAIL : 0);
    int rank = (step - first) / each * 16;
    for (int i = r.from; i < r.to; i++, to += Stage::UNIT) {
      int slot = slots[i];
      if (GATED) tmaLoad3D(to, &b[0], rank, at.wRow / 2, slot, bar), tmaLoad3D(to + Stage::UNIT / 2, &b[1], rank, at.wRow / 2, slot, bar);
      else tmaLoad3D(to, &b[at.part], rank, at.wRow, slot, bar);
    }
  }
  // loadH loads the rest.
  template <int BN, bool GATED> DEVICE void loadH(u32 to, const WorkTile& at, int step, u32 bar) const {
    typedef AdapterStage<BN, GATED> Stage;
    Runs r = of<BN, GATED>(at, step);
    if (r.from >= r.to) return;
    int pass = (step - first) / each;
    for (int side = 0; side < Stage::SIDES; side++)
      tmaLoadOften(to + Stage::AT_H + side * Stage::H, h + (long)(((GATED ? side : at.part) * passes + pass) * rows + at.xRow) * 32, Stage::H, bar);
    tmaLoadOften(to + Stage::AT_RUNS, runs + at.xRow * 4, Stage::RUNS, bar);
    tmaLoadOften(to + Stage::AT_BLOCKS, (const u8*)(blocks + at.xRow / 8), Stage::BLOCKS, bar);
  }
  // multiply adds a step's B h to a warpgroup's sums, which lie as those of mma do. B is mma's first operand, h its second; the order of ranks is that in which
  // lanes load eight bytes.
  template <int BN, bool GATED, typename Sum> DEVICE void multiply(Sum (&acc)[BN / 2], u32 stage, const WorkTile& at, int step) const {
    typedef AdapterStage<BN, GATED> Stage;
    Runs all = of<BN, GATED>(at, step);
    if (all.from >= all.to) return;
    int g = lane() / 4, t = lane() % 4, row = (warp() - 4) * (GATED ? 8 : 16) + g; // row: of B in a unit
    u32 mineOfB = stage + row * 32 + t * 8 - all.from * Stage::UNIT, mineOfH = stage + Stage::AT_H + g * 32 + t * 8;
    UNROLL for (int j = 0; j < BN / 8; j++) {
      u64 block = loadShared64(stage + Stage::AT_BLOCKS + j * 8);
      int from = maxi(all.from, (int)block), to = mini(all.to, (int)(block >> 32));
      if (from >= to) continue;
      int run = loadShared32(stage + Stage::AT_RUNS + (j * 8 + g) * 4);
      u64 x = loadShared64(mineOfH + j * 256), up = GATED ? loadShared64(mineOfH + Stage::H + j * 256) : 0;
      float d[4] = {acc[4 * j], acc[4 * j + 1], acc[4 * j + 2], acc[4 * j + 3]};
      for (; from < to; from++) {
        u32 unit = mineOfB + from * Stage::UNIT;
        bool own = run == from;
        u32 x0 = own ? (u32)x : 0, x1 = own ? (u32)(x >> 32) : 0;
        u64 top = loadShared64(unit), bottom = loadShared64(unit + (GATED ? Stage::UNIT / 2 : 8 * 32));
        if (GATED) {
          mma(d, (u32)top, 0, (u32)(top >> 32), 0, x0, x1);
          mma(d, 0, (u32)bottom, 0, (u32)(bottom >> 32), own ? (u32)up : 0, own ? (u32)(up >> 32) : 0);
        } else {
          mma(d, (u32)top, (u32)bottom, (u32)(top >> 32), (u32)(bottom >> 32), x0, x1);
        }
      }
      UNROLL for (int e = 0; e < 4; e++) acc[4 * j + e] = d[e];
    }
  }
};
#endif
} // namespace dense_sm90
