// Grouped GEMM of experts on Hopper, for jobs of up to 256 slots: persistent, warp-specialised. Blocks work in clusters of two, which take neighbouring
// tiles of an expert's weights, 128 rows each, and the same job: of its rows of x each block loads one half for both (TMA multicast). One producer thread
// loads weights by TMA, another x, into rings of stages in shared memory; two consumer warpgroups multiply them by wgmma, 64 columns a step. Weights in bf16 are
// the A operand in shared memory; others are dequantised in registers. The width of wgmma is the job's slots, rounded up to 32: slots beyond the
// last, of the next expert, are multiplied and not stored. x has a row per slot (permuted).
#pragma once
#include "grouped_gemm.h"
#include "wgmma.h"
#include "vec.h"

constexpr int NARROW = 32, WIDTHS = 8; // jobs are 1 to WIDTHS times as wide
constexpr int CONSUMERS = 8;             // consumer warps

struct GroupedGemmSm90Params {
  TensorMap x[WIDTHS]; // [slots, k], in boxes of 64 columns × half of a job of each width
  const int* total;
  const Vec16* jobs;
  const u8* w;
  const float *bias, *upBias;
  bf16* y;
  long stride;
  int n, k, each;
  float steep, curved, limit, more; // see Gate
  int squared; // see productOf
  long pad8[5]; // the struct's size is a multiple of its maps' alignment, 64
};

#if __CUDA_ARCH__ >= 900
// storeMatrix4T stores four 8×8 matrices of 16-bit numbers, held as mma holds one, transposed: lane 8i + r says where row r of matrix i goes.
DEVICE void storeMatrix4T(u32 at, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// Gate is the activation of a gated product: gate sigmoid(gate (a + b gate²)) (up + more), of values clamped to a limit. SiLU, tanh GELU and gpt-oss's SwiGLU have this form.
struct Gate {
  float steep, curved, limit, more; // the first two times -log2 e
  DEVICE float operator()(float gate, float up) const {
    gate = minf(gate, limit), up = minf(maxf(up, -limit), limit);
    return (up + more) * gate * reciprocal(1 + exp2(gate * __builtin_fmaf(curved, minf(gate * gate, 1e30f), steep)));
  }
};

// ClusterTileIterator is the tile scheduler: a cluster takes every (number of clusters)-th tile. The next job is loaded a tile ahead.
template <int ROWS> struct ClusterTileIterator {
  const GroupedGemmSm90Params& p;
  int runs, at, end;
  Vec16 noted;
  DEVICE ClusterTileIterator(const GroupedGemmSm90Params& p) : p(p), runs(ceilDiv(p.n, 2 * ROWS)), at(blockX() / 2), end(*p.total * runs) { ask(); }
  DEVICE void ask() {
    if (at < end) noted = p.jobs[at / runs];
  }
  DEVICE bool next(Job& job) {
    if (at >= end) return false;
    job.read(noted, at, runs, p.each);
    job.tiles = job.tiles * 2 + clusterRank();
    at += gridX() / 2;
    ask();
    return true;
  }
};

// Halves is the two halves of a unit that hold a warp's 16 rows; fragments dequantises the A operands of a block of 32 columns.
template <typename Q> struct Halves {
  Q q[2];
  DEVICE void load(u32 unit) { q[0].load(InShared{unit}), q[1].load(InShared{unit + Q::BYTES}); }
  DEVICE void fragments(u32 (&a)[2][4], int block) const {
    u32 top[4], bottom[4];
    dequantise(q[0], block, top);
    dequantise(q[1], block, bottom);
    UNROLL for (int s = 0; s < 2; s++) a[s][0] = top[2 * s], a[s][1] = bottom[2 * s], a[s][2] = top[2 * s + 1], a[s][3] = bottom[2 * s + 1];
  }
};

// DynamicPipelineState is PipelineState with a number of stages known at run time.
struct DynamicPipelineState {
  int stage = 0;
  u32 phase = 0;
  DEVICE void next(int stages) {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

template <typename Q, bool GATED> struct GroupedGemmBlock {
  static constexpr int SIDES = QUANTISED<Q> ? 2 : 1; // steps of a stage of weights
  static constexpr int ROWS = GATED ? 64 : 128;   // output rows of a tile
  static constexpr int W_STAGE = 2 * Q::BYTES * PANEL * SIDES / 2;
  static constexpr int CHUNK = 64, COLS = ROWS / 2, LINE = 64 * 2 + 16, LINES = 2 * CHUNK * LINE; // see store
  static constexpr int XS = QUANTISED<Q> ? 5 : 4, MOST_WS = 8; // stages of x; of weights, at most
  static constexpr int ROOM = 226 * 1024 - 1024 - LINES;    // mirrored by sm90Shared of grouped_gemm_sm90.go
  int xStage, wStages;              // bytes of a stage of x, for the largest job; stages of weights, in the remaining memory
  u32 xs, ws;                       // rings of stages in shared memory
  u32 xFull, xEmpty, wFull, wEmpty; // barriers of each
  u8* lines;
  DynamicPipelineState x, w;
  int steps;

  // widthOf is the width of wgmma for so many slots, in units of 32. (With more than five widths of quantised weights ptxas runs out of registers.)
  static DEVICE int widthOf(int slots) {
    int least = ceilDiv(slots, NARROW);
    return !QUANTISED<Q> ? least : least == 3 ? 4 : least > 5 ? WIDTHS : least;
  }

  DEVICE void produceX(const GroupedGemmSm90Params& p) {
    ClusterTileIterator<ROWS> tour(p);
    Job job;
    for (int fetched = 0, rank = clusterRank(); tour.next(job);) {
      int width = widthOf(job.count), half = width * NARROW / 2;
      for (int step = 0; step < steps; step++, x.next(XS)) {
        u32 to = xs + x.stage * xStage, bar = xFull + x.stage * 8;
        if (fetched++ >= XS) mbarrierWait(xEmpty + x.stage * 8, x.phase ^ 1);
        mbarrierExpectTx(bar, 2 * half * 128);
        tmaLoadMulticast(to + rank * half * 128, &p.x[width - 1], step * 64, job.slot + rank * half, bar, EVICT_LAST);
      }
    }
  }
  DEVICE void produceW(const GroupedGemmSm90Params& p) {
    ClusterTileIterator<ROWS> tour(p);
    Job job;
    int panels = ceilDiv(p.n, ROWS), columns = unitsOf(p.k) * 2 / SIDES;
    for (int fetched = 0; tour.next(job);) {
      const u8* from = p.w + job.expert * p.stride + (long)(mini(job.tiles, panels - 1) * columns) * W_STAGE;
      for (int step = 0; step < steps; step += SIDES, w.next(wStages)) {
        u32 bar = wFull + w.stage * 8;
        if (fetched++ >= wStages) mbarrierWait(wEmpty + w.stage * 8, w.phase ^ 1);
        mbarrierExpectTx(bar, W_STAGE);
        tmaLoadBulk(ws + w.stage * W_STAGE, from, W_STAGE, bar);
        from += W_STAGE;
      }
    }
  }

  // releaseX releases a stage of x to both blocks of the cluster, as each loads a half of it.
  DEVICE void releaseX(int stage) {
    if (lane() < 2) mbarrierArriveRemote(xEmpty + stage * 8, lane());
  }
  DEVICE void releaseW(int stage) { mbarrierArrive(wEmpty + stage * 8); } // every consumer thread arrives

  // tile computes a tile of a job of up to N slots, main loop and epilogue.
  template <int N> DEVICE void tile(const GroupedGemmSm90Params& p, const Job& job) {
    int group = warp() / 4 - 1;
    float acc[N / 2] = {};
    int last = 0, lastW = 0; // stages
    if constexpr (QUANTISED<Q>) {
      Halves<Q> halves;
      u32 a[2][2][4]; // double buffer: one block is dequantised while the other is multiplied
      for (int step = 0; step < steps; step += 2) {
        mbarrierWait(wFull + w.stage * 8, w.phase);
        halves.load(ws + w.stage * W_STAGE + (warp() - 4) * (2 * Q::BYTES));
        UNROLL for (int block = 0; block < BLOCKS; block++) {
          if (block == 2 && step + 1 == steps) break;
          if (block % 2 == 0) mbarrierWait(xFull + x.stage * 8, x.phase);
          wgmmaWait<1>(); // the last wgmma that read a[block % 2] are done
          if (block % 2 == 1 && (step > 0 || block > 1)) releaseX(last); // and so are those that read the previous stage
          halves.fragments(a[block % 2], block);
          wgmmaFence();
          UNROLL for (int k = 0; k < 2; k++) multiply(acc, a[block % 2][k], smemDescriptor(xs + x.stage * xStage) + block % 2 * 4 + 2 * k);
          wgmmaCommit();
          if (block % 2 == 1) last = x.stage, x.next(XS);
        }
        releaseW(w.stage);
        w.next(wStages);
      }
    } else {
      for (int step = 0; step < steps; step++) {
        mbarrierWait(wFull + w.stage * 8, w.phase);
        mbarrierWait(xFull + x.stage * 8, x.phase);
        u64 a = smemDescriptorNoSwizzle(ws + w.stage * W_STAGE + group * (W_STAGE / 2), 1024), b = smemDescriptor(xs + x.stage * xStage);
        wgmmaFence();
        UNROLL for (int k = 0; k < 4; k++) multiply(acc, a + 16 * k, b + 2 * k);
        wgmmaCommit();
        wgmmaWait<1>(); // the previous step's wgmma are done
        if (step > 0) releaseX(last), releaseW(lastW);
        last = x.stage, lastW = w.stage;
        x.next(XS), w.next(wStages);
      }
    }
    wgmmaWait<0>();
    UNROLL for (int e = 0; e < N / 2; e++) asm volatile("" : "+f"(acc[e])::"memory");
    releaseX(last);
    if (!QUANTISED<Q>) releaseW(lastW);
    store<N>(p, job, acc);
  }

  DEVICE void run(const GroupedGemmSm90Params& p, const Job& job) {
    switch (widthOf(job.count)) {
    case 1: return tile<32>(p, job);
    case 2: return tile<64>(p, job);
    case 4: return tile<128>(p, job);
    case 5: return tile<160>(p, job);
    case 8: return tile<256>(p, job);
    }
    if constexpr (!QUANTISED<Q>) switch (widthOf(job.count)) {
    case 3: return tile<96>(p, job);
    case 6: return tile<192>(p, job);
    case 7: return tile<224>(p, job);
    }
  }

  // store is the epilogue, CHUNK slots at a time: each warpgroup transposes its COLS results per slot through shared memory, one line a slot, and
  // stores them 16 bytes a thread.
  template <int N> DEVICE void store(const GroupedGemmSm90Params& p, const Job& job, const float (&acc)[N / 2]) {
    int group = warp() / 4 - 1, in = warp() % 4, first = job.tiles * ROWS + group * COLS, row = first + in * (COLS / 4) + lane() / 4;
    long biases = (long)job.expert * p.n;
    auto biasOf = [&](const float* bias, int row) { return bias && row < p.n ? bias[biases + row] : 0; };
    float bias0 = biasOf(p.bias, row), bias1 = GATED ? biasOf(p.upBias, row) : biasOf(p.bias, row + 8);
    Gate gate = {p.steep, p.curved, p.limit, p.more};
    bool squared = p.squared;
    u8* mine = lines + group * (CHUNK * LINE);
    // Each lane addresses one row of the transposed 8×8 matrices: four matrices of eight slots each if gated, else two pairs of 8 slots × 16 columns.
    int matrix = lane() / 8, slot = (GATED ? matrix : matrix / 2) * 8 + lane() % 8;
    u32 to = sharedAddress(mine) + slot * LINE + (in * (COLS / 4) + (GATED ? 0 : matrix % 2 * 8)) * 2;
    UNROLL for (int c = 0; c < N; c += CHUNK) {
      int slots = mini(job.count - c, CHUNK);
      if (slots <= 0) break;
      constexpr int STEP = GATED ? 4 : 2; // eights of slots
      UNROLL for (int j = 0; j < mini(CHUNK, N - c) / 8; j += STEP) {
        u32 v[4];
        UNROLL for (int i = 0; i < 4; i++) {
          const float* d = acc + (c / 8 + j + (GATED ? i : i / 2)) * 4;
          if (GATED) v[i] = pack(gate(d[0] + bias0, d[2] + bias1), gate(d[1] + bias0, d[3] + bias1));
          else if (i % 2 == 0) v[i] = pack(productOf(squared, d[0] + bias0), productOf(squared, d[1] + bias0));
          else v[i] = pack(productOf(squared, d[2] + bias1), productOf(squared, d[3] + bias1));
        }
        storeMatrix4T(to + j * 8 * LINE, v);
      }
      namedBarrierSync(1 + group, 128);
      for (int s = threadX() % 128; s < slots * (COLS / 8); s += 128) {
        int line = s / (COLS / 8), column = s % (COLS / 8) * 8;
        Vec16 eight = InShared{sharedAddress(mine) + line * LINE + column * 2}.four(0);
        if (first + column < p.n) storeVec(p.y + (long)(job.slot + c + line) * p.n + first + column, eight);
      }
      namedBarrierSync(1 + group, 128);
    }
  }
};

template <typename Q, bool GATED> DEVICE void groupedGemmSm90(const GroupedGemmSm90Params& p) {
  typedef GroupedGemmBlock<Q, GATED> W;
  SHARED static u64 bars[2 * (W::XS + W::MOST_WS)];
  W w;
  w.xStage = p.each * 128, w.wStages = mini((W::ROOM - W::XS * w.xStage) / W::W_STAGE, W::MOST_WS), w.steps = ceilDiv(p.k, 64);
  w.xFull = sharedAddress(bars), w.xEmpty = w.xFull + 8 * W::XS, w.wFull = w.xEmpty + 8 * W::XS, w.wEmpty = w.wFull + 8 * W::MOST_WS;
  w.xs = (sharedAddress(dynamic) + 1023) & ~1023u, w.ws = w.xs + W::XS * w.xStage;
  w.lines = dynamic + (w.ws + w.wStages * W::W_STAGE - sharedAddress(dynamic));
  if (threadX() == 0) {
    for (int i = 0; i < W::XS; i++) mbarrierInit(w.xFull + 8 * i, 1), mbarrierInit(w.xEmpty + 8 * i, 2 * CONSUMERS);
    for (int i = 0; i < w.wStages; i++) mbarrierInit(w.wFull + 8 * i, 1), mbarrierInit(w.wEmpty + 8 * i, CONSUMERS * 32);
    mbarrierInitFence();
  }
  clusterBarrier();
  launchDependentsAndWait();
  if (warp() < 4) { // producer warpgroup: releases registers to the consumers
    setmaxnregDec<24>();
    if (threadX() == 0) w.produceX(p);
    if (threadX() == 32) w.produceW(p);
    return;
  }
  setmaxnregInc<240>();
  ClusterTileIterator<W::ROWS> tour(p);
  for (Job job; tour.next(job);) w.run(p, job);
  clusterBarrierUnaligned(); // the other block may still arrive at this block's mbarriers
}
#endif
