// What adapters add, as further steps of a product: behind the k of x and W come h = A x of the rows, and B. A step has four units of 16 ranks of one
// adapter, of gate or up where they are two; a row's h is 0 but in the units of its own adapter. So B is read once, nothing is added in an epilogue, and
// few adapters cost a few steps.
#pragma once
#include "tile_scheduler.h"

namespace dense_sm90 {
#if __CUDA_ARCH__ >= 900
// NoSteps is a product without them.
struct NoSteps {
  static constexpr bool PRODUCTS = false, TILES = false; // whether its steps are multiplied as those of k are, with all rows; whether they are of tiles
  struct Ahead {};
  template <int BN> DEVICE void tileAhead(Ahead&, const WorkTile&) const {}
  template <int BN, bool GATED> DEVICE void stepAhead(Ahead&, int) const {}
  DEVICE bool has(int) const { return false; }
  // Run is steps of a tile that are one block's: of k, and from a number on of tiles.
  struct Run {
    int first, k;
    DEVICE int step(int j) const { return first + j; }
  };
  DEVICE Run runOf(int first, int n) const { return {first, n}; }
  template <int BN, bool GATED> DEVICE void loadB(Ahead, u32, const WorkTile&, int, const Part*, u32) const {}
  template <int BN, bool GATED, int CLUSTER> DEVICE void loadH(Ahead, u32, u32, const WorkTile&, int, int, u32) const {}
  template <int BN> DEVICE int tilesOf(const WorkTile&) const { return 0; }
  template <int BN, bool GATED, typename Sum, typename Wait, typename Release> DEVICE void multiply(Sum (&)[BN / 2], int, int, int, Wait, Release) const {}
};

// tmaLoad5D is tmaLoad2D with five dimensions: col, a, b, c, d from the innermost on.
DEVICE void tmaLoad5D(u32 to, const TensorMap* map, int col, int a, int b, int c, int d, u32 bar, u64 keep) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;"
               ::"r"(to), "l"(map), "r"(col), "r"(a), "r"(b), "r"(c), "r"(d), "r"(bar), "l"(keep) : "memory");
}

// smemDescriptor32 is wgmma's descriptor of a K-major tile whose rows are 32 bytes, one k16, swizzled by 32 bytes as TMA writes them: 256 bytes between groups
// of eight rows, swizzle mode 3.
DEVICE u64 smemDescriptor32(u32 address) { return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | 16ull << 32 | 3ull << 62; }

struct AdapterSteps : NoSteps {
  static constexpr bool PRODUCTS = true;
  TensorMap h;      // [parts × steps × rows, 64]; of a gated launch one part, whose units are of gate and up by turns
  TensorMap b[3];   // of each part [slots × passes][n][16]; of a gated launch of gate and up, [slots × passes][n / 8][1][8][16]
  const int* slots; // [planes] whose adapter a plane is; -1: no row has one
  int first, steps; // the first of these steps, and how many
  int planes, passes, rows, ofSlot; // units of an adapter's ranks; rows that a step has room for; units that B has room for in a slot

  struct Unit { int side, plane, pass; };
  DEVICE bool has(int step) const { return step >= first; }
  template <bool GATED> DEVICE Unit unit(int step, int i) const {
    int u = (step - first) * 4 + i, v = GATED ? u / 2 : u;
    return {GATED ? u % 2 : 0, v / passes, v % passes};
  }
  // loadB loads a step's four units of B, 128 rows of 32 bytes each. What lies outside is 0: of a gated launch's interleaved rows, those that are not of the
  // unit's side, and of a plane that there is not all.
  template <int BN, bool GATED> DEVICE void loadB(Ahead, u32 to, const WorkTile& at, int step, const Part*, u32 bar) const {
    mbarrierExpectTx(bar, W_BYTES + BN * BK * 2);
    for (int i = 0; i < 4; i++, to += 128 * 32) {
      Unit u = this->template unit<GATED>(step, i);
      int slot = u.plane < planes ? slots[u.plane] : -1, which = slot < 0 ? -1 : slot * ofSlot + u.pass;
      if (GATED) tmaLoad5D(to, &b[u.side], 0, 0, -u.side, at.wRow / 16, which, bar, EVICT_LAST);
      else tmaLoad3D(to, &b[at.part], 0, at.wRow, which, bar);
    }
  }
  // loadH loads their h, of a cluster's blocks a half each for both.
  template <int BN, bool GATED, int CLUSTER> DEVICE void loadH(Ahead, u32, u32 to, const WorkTile& at, int step, int rank, u32 bar) const {
    int row = ((GATED ? 0 : at.part * steps) + step - first) * rows + at.xRow + rank * (BN / 2);
    if (CLUSTER > 1) tmaLoadMulticast(to, &h, 0, row, bar, EVICT_LAST);
    else tmaLoad2D(to, &h, 0, row, bar, EVICT_LAST);
  }
};
#endif
} // namespace dense_sm90
