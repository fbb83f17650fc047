// What many adapters add, as further steps of a product: y += B h, where h = A x of each row is a vector of the ranks of the row's own adapter.
// A tile is up to 16 rows of one adapter among 16 aligned ones, a window: h of the window's rows, 0 of those that are not the tile's. A step brings some tiles' B and
// h into a stage, and each tile is two mma of eight columns (four where a launch has gate and up), which add to the sums of its window as wgmma has left them. So an adapter's B is read once
// for each window that it has rows in, and multiplied with those alone; nothing goes through memory.
#pragma once
#include "adapter_steps.h"

namespace dense_sm90 {
#if __CUDA_ARCH__ >= 900
DEVICE u64 loadShared64(u32 at) {
  u64 v;
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(v) : "r"(at) : "memory");
  return v;
}

// AdapterStage is what such a step has in the shared memory of a stage: B of TILES tiles, 16 ranks of 128 rows each (of a gated launch 64 of the gate's and 64 of
// up's), and their h.
template <int BN, bool GATED> struct AdapterStage {
  static constexpr int SIDES = GATED ? 2 : 1, B = 128 * 32, H = 16 * 32, TILES = (W_BYTES + BN * BK * 2) / (B + SIDES * H), AT_H = TILES * B;
};

struct AdapterTiles : NoSteps {
  static constexpr bool TILES = true;
  static constexpr int WINDOW = 16;
  struct B { const u8* at; long slot, pass; }; // [slots][passes][n][16] bf16: bytes from slot to slot, from pass to pass
  B b[3];             // of each part; of a gated launch of gate and up
  const u8* h;        // [parts, or gate and up][passes][room][16 rows][16] bf16
  const int* tiles;   // [n × 4] the first number is the slot, as in LoraParams; window by window
  const int* windows; // [rows / 16 + 1] the first tile of each 16 rows
  int first, each;    // the first of these steps, behind all of k, and how many a pass of 16 ranks has
  int steps, period;  // how many there are, and steps of which the last is one of these
  int passes, room;   // of h: tiles that it has room for

  DEVICE bool has(int step) const { return step >= first; }
  // Blocks that share a tile share its tiles' steps as they share those of k: every so manieth step of a tile is one of these, and each block computes its own behind
  // its own of k.
  struct Run {
    int first, k, tiles; // the first of k, how many, and the first of tiles
    DEVICE int step(int j) const { return j < k ? first + j : tiles + j - k; }
  };
  DEVICE int tilesBefore(int step) const { return mini(step / period, steps); }
  DEVICE Run runOf(int step, int n) const {
    int from = tilesBefore(step), to = tilesBefore(step + n);
    return {step - from, n - (to - from), first + from};
  }

  // Ahead is what is known of a product's tile and of a step before their turn, since what is loaded to be known takes as long as what is loaded then: the first tile
  // of all windows, behind the last, and the slot of the step's tile of the lane's number.
  struct Ahead { int from, to, slot; };
  template <int BN> DEVICE void tileAhead(Ahead& a, const WorkTile& at) const { a.from = windows[at.xRow / WINDOW], a.to = windows[at.xRow / WINDOW + BN / WINDOW]; }
  // ofStep is the first tile of a step.
  template <int BN, bool GATED> DEVICE int ofStep(const Ahead& a, int step) const { return a.from + (step - first) % each * AdapterStage<BN, GATED>::TILES; }
  template <int BN, bool GATED> DEVICE void stepAhead(Ahead& a, int step) const {
    if (!has(step)) return;
    int tile = ofStep<BN, GATED>(a, step) + lane();
    if (tile < a.to && lane() < AdapterStage<BN, GATED>::TILES) a.slot = tiles[4 * tile];
  }
  // loadB loads a step's B, a lane a tile's. Rows that the matrix does not have stay what they were.
  template <int BN, bool GATED> DEVICE void loadB(const Ahead& a, u32 to, const WorkTile& at, int step, const Part* parts, u32 bar) const {
    typedef AdapterStage<BN, GATED> Stage;
    int n = mini(a.to - ofStep<BN, GATED>(a, step), Stage::TILES);
    int pass = (step - first) / each, row = GATED ? at.wRow / 2 : at.wRow, bytes = mini(GATED ? 64 : 128, parts[at.part].n - row) * 32;
    if (lane() == 0) mbarrierExpectTx(bar, n > 0 ? n * (Stage::SIDES * (bytes + Stage::H)) : 0);
    if (lane() >= n) return;
    to += lane() * Stage::B;
    tmaLoadBulk(to, b[at.part].at + a.slot * b[at.part].slot + pass * b[at.part].pass + (long)row * 32, bytes, bar);
    if (GATED) tmaLoadBulk(to + Stage::B / 2, b[1].at + a.slot * b[1].slot + pass * b[1].pass + (long)row * 32, bytes, bar);
  }
  // loadH loads their h.
  template <int BN, bool GATED, int CLUSTER> DEVICE void loadH(const Ahead& a, u32 stage, u32, const WorkTile& at, int step, int, u32 bar) const {
    typedef AdapterStage<BN, GATED> Stage;
    int from = ofStep<BN, GATED>(a, step), n = mini(a.to - from, Stage::TILES), side = lane();
    if (n <= 0 || side >= Stage::SIDES) return;
    tmaLoadBulk(stage + Stage::AT_H + side * Stage::TILES * Stage::H, h + ((long)((GATED ? side : at.part) * passes + (step - first) / each) * room + from) * Stage::H,
                n * Stage::H, bar, EVICT_LAST);
  }

  // tilesOf is the first tile of a window of a product's tile, by the lane's number.
  template <int BN> DEVICE int tilesOf(const WorkTile& at) const { return windows[at.xRow / WINDOW + mini(lane(), BN / WINDOW)]; }

  // Fragment is what a lane has of a tile: of B four ranks of row g and of row g + 8 of its warp's 16, or of the gate and of up; and of h those of rows g and g + 8,
  // of up too.
  template <bool GATED> struct Fragment { u64 top, bottom, h[2], up[2]; };

  // addTo adds a tile's B h to the sums of a window.
  template <int WHICH, bool GATED, int SUMS> static DEVICE void addTo(float (&acc)[SUMS], const Fragment<GATED>& f) {
    if constexpr (8 * WHICH < SUMS) {
      float(&low)[4] = *(float(*)[4])(acc + 8 * WHICH), (&high)[4] = *(float(*)[4])(acc + 8 * WHICH + 4);
      if (GATED) {
        mma(low, (u32)f.top, 0, (u32)(f.top >> 32), 0, (u32)f.h[0], (u32)(f.h[0] >> 32));
        mma(high, (u32)f.top, 0, (u32)(f.top >> 32), 0, (u32)f.h[1], (u32)(f.h[1] >> 32));
        mma(low, 0, (u32)f.bottom, 0, (u32)(f.bottom >> 32), (u32)f.up[0], (u32)(f.up[0] >> 32));
        mma(high, 0, (u32)f.bottom, 0, (u32)(f.bottom >> 32), (u32)f.up[1], (u32)(f.up[1] >> 32));
      } else {
        mma(low, (u32)f.top, (u32)f.bottom, (u32)(f.top >> 32), (u32)(f.bottom >> 32), (u32)f.h[0], (u32)(f.h[0] >> 32));
        mma(high, (u32)f.top, (u32)f.bottom, (u32)(f.top >> 32), (u32)(f.bottom >> 32), (u32)f.h[1], (u32)(f.h[1] >> 32));
      }
    }
  }
  // addToAny is addTo of a window that only the running program knows: registers have no index, so each window has its own few instructions.
  template <bool GATED, int SUMS> static DEVICE void addToAny(float (&acc)[SUMS], int window, const Fragment<GATED>& f) {
    switch (window) {
#define WINDOW_CASE(n) case n: addTo<n, GATED>(acc, f); break;
    WINDOW_CASE(0) WINDOW_CASE(1) WINDOW_CASE(2) WINDOW_CASE(3) WINDOW_CASE(4) WINDOW_CASE(5) WINDOW_CASE(6) WINDOW_CASE(7)
    WINDOW_CASE(8) WINDOW_CASE(9) WINDOW_CASE(10) WINDOW_CASE(11) WINDOW_CASE(12) WINDOW_CASE(13) WINDOW_CASE(14)
    default: addTo<15, GATED>(acc, f);
#undef WINDOW_CASE
    }
  }

  // multiply adds B h of steps up to end to a warpgroup's sums. The order of ranks is that in which lanes load eight bytes.
  template <int BN, bool GATED, typename Sum, typename Wait, typename Release>
  DEVICE void multiply(Sum (&acc)[BN / 2], int tilesOfLane, int step, int end, Wait wait, Release release) const {
    typedef AdapterStage<BN, GATED> Stage;
    constexpr int WINDOWS = BN / WINDOW;
    int start = shuffleFrom(tilesOfLane, 0), all = shuffleFrom(tilesOfLane, WINDOWS);
    if (lane() == 0 || lane() >= WINDOWS) tilesOfLane = 1 << 30; // the others: windows that begin behind the first
    u32 ofLane = lane() / 4 * 32 + lane() % 4 * 8, ofWarp = ofLane + (warp() - 4) * (GATED ? 8 : 16) * 32;
    auto load = [&](u32 b, u32 h) __attribute__((always_inline)) {
      Fragment<GATED> f = {loadShared64(b + ofWarp), loadShared64(b + ofWarp + (GATED ? Stage::B / 2 : 8 * 32)), {loadShared64(h + ofLane), loadShared64(h + ofLane + 8 * 32)}, {}};
      if (GATED) UNROLL for (int i = 0; i < 2; i++) f.up[i] = loadShared64(h + ofLane + Stage::TILES * Stage::H + i * 8 * 32);
      return f;
    };
    auto windowOf = [&](int tile) __attribute__((always_inline)) { return WINDOWS == 1 ? 0 : __builtin_popcount(__nvvm_vote_ballot_sync(-1, tilesOfLane <= tile)); };
    int in = (step - first) % each;
    _Pragma("nounroll") for (; step < end; step++, in = in + 1 == each ? 0 : in + 1) {
      int tile = start + in * Stage::TILES, to = mini(tile + Stage::TILES, all), window = 0;
      auto s = wait();
      u32 b = s.at, h = s.at + Stage::AT_H;
      Fragment<GATED> next = {};
      if (tile < to) next = load(b, h), window = windowOf(tile);
      _Pragma("nounroll") for (; tile < to; tile++) {
        Fragment<GATED> f = next;
        int at = window;
        b += Stage::B, h += Stage::H;
        if (tile + 1 < to) next = load(b, h), window = windowOf(tile + 1);
        addToAny<GATED>(acc, at, f);
      }
      warpBarrier();
      release(s.number);
    }
  }
};
#endif
} // namespace dense_sm90
