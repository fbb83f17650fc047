// A consumer warpgroup: attention of its 64 rows of a tile.
#pragma once
#include "tile_scheduler.h"

#if __CUDA_ARCH__ >= 900
// stmatrix4 stores four 8×8 matrices of 16-bit numbers, held as mma holds them; lane 8i + r says where row r of matrix i goes.
DEVICE void stmatrix4(u32 at, const u32 (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}

// Consumer has its own softmax where prefill_sm80 has SoftmaxRows: with that, prompts took 0.6 % longer (docs/lore.md, 122).
// D: 64 or 128, the head size rounded up; what is beyond the true size is zero in Q and never stored. CAP: scores are
// soft-capped. HALF: keys and values are IEEE halves.
template <int D, int STAGES, bool CAP, bool HALF> struct Consumer {
  static constexpr int H = D / 64;
  // Ping-pong: with large heads, while the wgmma of one warpgroup run on the tensor cores, the other computes its softmax. Each
  // step a warpgroup waits at its barrier, issues its wgmma and arrives at the other's. (Left alone, both fall in step: both issue
  // wgmma, both wait, both compute exponentials. With small heads exponentials take the longest, and waiting costs 3 %.)
  static constexpr bool PING_PONG = D > 64;

  const PrefillParams& p;
  const SharedStorage<H, STAGES>& at;
  int group, me, g, t; // which warpgroup, and its thread; the thread's row and column in its warp's accumulators
  float scaled;        // scale of scores, for powers of two
  // A tile's:
  u32 q;                         // where its queries lie
  int before, end;               // key tiles of the tiles before, and where the tile's own end
  int length, low, high;         // the sequence's keys; the last key that the first and the last row look at
  float o[D / 2], sc[KEYS / 2];  // the result and the scores of 128 keys, as wgmma leaves them
  float rowMax[2], sum[2], rescale[2]; // of the thread's two rows: largest score, sum of P, and the factor of the sums so far
  u32 prob[KEYS / 16][4];           // P of 128 keys, as A operand

  DEVICE Consumer(const PrefillParams& p, const SharedStorage<H, STAGES>& at) : p(p), at(at) {
    group = warp() / 4 - 1, me = threadX() & 127, g = lane() / 4, t = lane() % 4, before = 0;
    scaled = CAP ? LOG2E : p.scale * LOG2E;
    if (group == 1) pingPongArrive();
  }
  DEVICE void pingPongWait() const {
    if (PING_PONG) namedBarrierSync(4 + group, 256);
  }
  DEVICE void pingPongArrive() const {
    if (PING_PONG) namedBarrierArrive(5 - group, 256);
  }
  DEVICE void warpgroupSync() const { namedBarrierSync(1 + group, 128); } // the warpgroup's threads
  DEVICE int stage(int i) const { return (before + i) % STAGES; }
  DEVICE u32 phase(int i) const { return (before + i) / STAGES & 1; }
  DEVICE void release(u32 bars, int i) const {
    if (lane() == 0) mbarrierArrive(bars + 8 * stage(i));
  }

  DEVICE void multiplyQK(int i) {
    mbarrierWait(at.kFull + 8 * stage(i), phase(i));
    wgmmaFence();
    u64 query = smemDescriptor(q), key = smemDescriptor(at.k + stage(i) * at.RUN);
    UNROLL for (int k = 0; k < D / 16; k++) {
      int off = (k / 4 * COLUMNS + k % 4 * 32) / 16;
      if (HALF) wgmmaF16(sc, query + off, key + off, k > 0);
      else wgmma(sc, query + off, key + off, k > 0);
    }
    wgmmaCommit();
  }
  DEVICE void multiplyPV(int i) { // o += P × V
    mbarrierWait(at.vFull + 8 * stage(i), phase(i));
    wgmmaFence();
    u64 values = smemDescriptorTrans(at.v + stage(i) * at.RUN, COLUMNS);
    UNROLL for (int k = 0; k < KEYS / 16; k++) {
      if (HALF) wgmmaRSTransF16(o, prob[k][0], prob[k][1], prob[k][2], prob[k][3], values + k * 2048 / 16);
      else wgmmaRSTrans(o, prob[k][0], prob[k][1], prob[k][2], prob[k][3], values + k * 2048 / 16);
    }
    wgmmaCommit();
  }
  // Reads of accumulators may not be moved before these.
  DEVICE void fenceScores() { UNROLL for (int j = 0; j < KEYS / 2; j++) asm volatile("" : "+f"(sc[j])::"memory"); }
  DEVICE void fenceOutput() { UNROLL for (int j = 0; j < D / 2; j++) asm volatile("" : "+f"(o[j])::"memory"); }

  template <bool MASKED> DEVICE void softmax(int i) {
    if (CAP) {
      UNROLL for (int j = 0; j < KEYS / 2; j++) sc[j] = p.softcap * tanhf(sc[j] * p.scale / p.softcap);
    }
    if (MASKED) {
      UNROLL for (int j = 0; j < KEYS / 2; j++) {
        int key = (end - 1 - i) * KEYS + j / 4 * 8 + t * 2 + (j & 1), pos = p.bidirectional ? low : low + (warp() & 3) * 16 + g + (j & 2) * 4;
        if (key > pos || (p.window > 0 && key <= pos - p.window)) sc[j] = MASK_VALUE;
      }
    }
    UNROLL for (int h = 0; h < 2; h++) {
      float m = rowMax[h];
      UNROLL for (int j = 0; j < KEYS / 8; j++) m = maxf(m, maxf(sc[4 * j + 2 * h], sc[4 * j + 2 * h + 1]));
      m = maxf(m, shuffleXor(m, 1));
      m = maxf(m, shuffleXor(m, 2));
      float shift = m <= -1e29f ? 0 : m * scaled, more = 0;
      rescale[h] = exp2((rowMax[h] - m) * scaled);
      rowMax[h] = m;
      UNROLL for (int j = 0; j < KEYS / 8; j++) UNROLL for (int e = 0; e < 2; e++) {
        float& x = sc[4 * j + 2 * h + e];
        x = exp2(__builtin_fmaf(x, scaled, -shift));
        more += x;
      }
      sum[h] = sum[h] * rescale[h] + more;
    }
  }
  DEVICE void makeP() { // and o rescaled to the new row max
    UNROLL for (int k = 0; k < KEYS / 16; k++) UNROLL for (int e = 0; e < 4; e++)
      prob[k][e] = HALF ? packF16(sc[8 * k + 2 * e], sc[8 * k + 2 * e + 1]) : pack(sc[8 * k + 2 * e], sc[8 * k + 2 * e + 1]);
    UNROLL for (int j = 0; j < D / 2; j++) o[j] *= rescale[j / 2 % 2];
  }
  template <bool MASKED> DEVICE void step(int i) {
    pingPongWait();
    multiplyQK(i + 1);
    multiplyPV(i);
    pingPongArrive();
    wgmmaWait<1>();
    fenceScores();
    release(at.kEmpty, i + 1);
    softmax<MASKED>(i + 1);
    if (sum[0] + sum[1] < 0) asm volatile("trap;"); // never; but the assembler may not put the softmax behind the wait then
    wgmmaWait<0>(); // no wgmma may be in flight at the loop's end: the compiler moves registers there
    fenceOutput();
    release(at.vEmpty, i);
    makeP();
  }

  // queriesToF16 converts queries to the cache's type.
  DEVICE void queriesToF16() const {
    for (int i = me; i < 64 * H * 8; i += 128) {
      u32 from = q + i / 512 * COLUMNS + i % 512 * 16;
      storeShared(from, bf16ToF16(loadShared(from)));
    }
    fenceProxyAsync();
    warpgroupSync();
  }
  // clearValues zeroes what was never written behind the last token: P = 0 times NaN would be NaN. Where both warpgroups read the
  // sequence's last tile, both write the same zeros: neither waits for the other.
  DEVICE void clearValues() const {
    mbarrierWait(at.vFull + 8 * stage(0), phase(0));
    for (int c = me; c < (end * KEYS - length) * H * 8; c += 128)
      storeShared(at.v + stage(0) * at.RUN + c % H * COLUMNS + (length - (end - 1) * KEYS + c / (H * 8)) * 128 + c / H % 8 * 16, {});
    fenceProxyAsync();
    warpgroupSync();
  }
  // skipTiles releases the leading key tiles that lie beyond the position of every row.
  DEVICE void skipTiles(int skip) const {
    for (int i = 0; i < skip; i++) {
      pingPongWait();
      pingPongArrive();
      mbarrierWait(at.kFull + 8 * stage(i), phase(i));
      release(at.kEmpty, i);
      mbarrierWait(at.vFull + 8 * stage(i), phase(i));
      release(at.vEmpty, i);
    }
  }
  DEVICE void mainloop(int skip, int steps) {
    UNROLL for (int i = 0; i < D / 2; i++) o[i] = 0;
    multiplyQK(skip);
    wgmmaWait<0>();
    fenceScores();
    release(at.kEmpty, skip);
    softmax<true>(skip);
    makeP();
    // While P × V of one key tile runs, the scores of the next become P. There may be no branch in
    // between, or the compiler waits before it; so tiles with masked scores, the diagonal's and those at the window's end, are
    // another loop's. Of those from clear to far no score is masked.
    int clear = end - (low + 1) / KEYS, far = p.window > 0 && high >= p.window ? end - 1 - (high - p.window) / KEYS : steps;
    for (int i = skip; i + 1 < steps; i++) {
      for (; i + 1 >= clear && i + 1 < mini(far, steps); i++) step<false>(i);
      if (i + 1 < steps) step<true>(i);
    }
    pingPongWait();
    multiplyPV(steps - 1);
    pingPongArrive();
    wgmmaWait<0>();
    fenceOutput();
    release(at.vEmpty, steps - 1);
  }

  // store takes the result through where its queries were, so that it is stored in lines of 16 bytes a lane.
  DEVICE void store(const Tile& tile) {
    warpgroupSync();
    int row0 = (warp() & 3) * 16;
    UNROLL for (int h = 0; h < 2; h++) {
      sum[h] += shuffleXor(sum[h], 1);
      sum[h] += shuffleXor(sum[h], 2);
      rescale[h] = reciprocal(sum[h]);
      if (p.sinks) {
        float mine = rowMax[h] * scaled, sink = p.sinks[tile.head] * LOG2E, m = maxf(mine, sink), e = exp2(mine - m);
        rescale[h] = e * reciprocal(sum[h] * e + exp2(sink - m));
      }
    }
    auto place = [&](int c, int r) { return q + c / 8 * COLUMNS + r * 128 + ((c ^ r) & 7) * 16; }; // of 16 bytes, swizzled
    UNROLL for (int j = 0; j < D / 8; j += 2) {
      u32 x[4];
      UNROLL for (int i = 0; i < 4; i++) x[i] = pack(o[4 * j + 2 * i] * rescale[i % 2], o[4 * j + 2 * i + 1] * rescale[i % 2]);
      stmatrix4(place(j + lane() / 16, row0 + lane() % 16), x);
    }
    warpBarrier();
    constexpr int LINE = D / 8; // lanes that store a row
    int rows = tile.rows - group * 64 - row0, c = lane() % LINE;
    bf16* y = p.y + ((long)(tile.row0 + group * 64 + row0) * p.heads + tile.head) * p.vSize + c * 8;
    UNROLL for (int i = lane() / LINE; i < 16; i += 32 / LINE) {
      Vec16 x = loadShared(place(c, row0 + i));
      if (i < rows && c * 8 < p.vSize) *(Vec16*)(y + (long)i * p.heads * p.vSize) = x;
    }
    fenceProxyAsync();
    warpBarrier();
  }

  // compute is the work of a warpgroup.
  DEVICE void compute() {
    for (int n = 0;; n++) {
      int slot = n % TILE_STAGES;
      mbarrierWait(at.known + 8 * slot, n / TILE_STAGES & 1);
      const Tile tile = Tile::read(at.tiles[slot]);
      end = tile.end, length = tile.length;
      if (end == 0) break;
      int steps = end - tile.first;
      low = tile.pos0 + group * 64, high = mini(low + 63, tile.pos0 + tile.rows - 1);
      bool none = high < low;
      if (p.bidirectional) low = high = length - 1;
      int skip = none ? steps : mini(steps, end - 1 - high / KEYS);
      q = at.q + slot * at.RUN + group * 64 * 128;
      UNROLL for (int h = 0; h < 2; h++) rowMax[h] = MASK_VALUE, sum[h] = 0;
      mbarrierWait(at.qFull + 8 * slot, n / TILE_STAGES & 1);
      if (HALF) queriesToF16();
      skipTiles(skip);
      if (skip == 0 && end * KEYS > length) clearValues();
      if (skip < steps) mainloop(skip, steps);
      before += steps;
      store(Tile::read(at.tiles[slot])); // again, rather than keep its numbers
      if (lane() == 0) mbarrierArrive(at.done + 8 * slot);
    }
    if (group == 0) pingPongWait(); // the other's last
  }
};
#endif
