// The linear layer on Hopper: Y = X W', bf16, for any number of rows. One producer warp keeps the copy engine fetching tiles
// into a ring of shared memory; two warpgroups multiply them. Weights are the A operand (128 rows a tile), activations
// the B operand (BN rows), so the same kernel streams weights for a few rows of x and fills the tensor cores for many.
//
// Work is dealt out two ways. Whole tiles in turn: block b takes tiles b, b + grid, …: no sums are split. The tiles that would
// leave blocks idle in a last round go as a stream, before the others: their k steps in a row are cut into runs, one a block. A
// tile cut in pieces is added up by those who have them, each a part (pieces.h), in an order that depends on the launch alone.
//
// Rows of x beyond m are read (they are within the buffer or zero) and never stored.
//
// The same text multiplies numbers of eight bits (kernels/gemm/w8a8); see mma_ops.h.
#pragma once
#include "../../activation.h"
#include "../../mma_ops.h"
#include "pieces.h"

namespace wide {
#if __CUDA_ARCH__ >= 900
extern SHARED u8 dynamic[];

// Gate is a gated problem's function, x sigmoid(x (a + b x²)): silu, or gelu by its tanh, since (1 + tanh(u)) / 2 is sigmoid(2u).
struct Gate {
  float a, b; // times -log2 e
  DEVICE Gate(int fn) : a(-LOG2E * (fn == SILU ? 1 : 1.5957691216057308f)), b(-LOG2E * (fn == SILU ? 0 : 0.07135481627260f)) {}
  DEVICE float operator()(float x) const { return x * reciprocal(1 + exp2(x * __builtin_fmaf(b, minf(x * x, 1e30f), a))); }
};

// Scales are those of two tokens, of which the first is even. Of an odd number the last is read with what lies behind it (gemm.go's XScale).
struct Scales { float first, second; };
DEVICE Scales scalesAt(const float* scale, int token) {
  Scales s;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(s.first), "=f"(s.second) : "l"(scale + token));
  return s;
}

// Writer turns a tile so that a token's numbers lie together, CHUNK tokens at a time: each warpgroup lays its columns of Y in
// lines of shared memory and then writes them out 16 bytes a thread.
template <typename Number, int BN, bool GATED> struct Writer {
  // CHUNK: tokens of a turn; COLS: columns of Y of a warpgroup; LINE: bytes of a line of them.
  static constexpr int CHUNK = BN < 32 ? 8 : BN / 4, TURNS = BN / CHUNK, COLS = GATED ? 32 : 64, LINE = COLS * 2 + 16;
  const Part& part;
  const float* xScale;
  u8* lines;
  Gate gate;
  int group, column, row0, m;
  float bias0 = 0, bias1 = 0, scale0 = 1, scale1 = 1;
  Scales xs[CHUNK / 8]; // of the tokens in hand

  DEVICE Writer(const GemmParams& p, const Place& at, u8* all) // all: both warpgroups' lines
      : part(p.part[at.part]), xScale(p.xScale), gate(p.fn), group(warp() / 4 - 1), row0(at.xRow), m(p.m) {
    lines = all + group * (CHUNK * LINE);
    column = (GATED ? at.wRow / 2 : at.wRow) + group * COLS;
    int col = column + (warp() & 3) * (COLS / 4) + lane() / 4, col1 = GATED ? col : col + 8;
    const float *b1 = GATED ? part.bias2 : part.bias, *s1 = GATED ? part.scale2 : part.scale;
    if (part.bias && col < part.n) bias0 = part.bias[col];
    if (b1 && col1 < part.n) bias1 = b1[col1];
    if (Number::SCALED && col < part.n) scale0 = part.scale[col];
    if (Number::SCALED && col1 < part.n) scale1 = s1[col1];
  }
  DEVICE void fetchScales(int c) { // of turn c; where all turns are written, asked for a turn ahead
    UNROLL for (int j = 0; j < CHUNK / 8; j++)
      xs[j] = Number::SCALED ? scalesAt(xScale, mini(row0 + c * CHUNK + j * 8 + lane() % 4 * 2, (m - 1) & ~1)) : Scales{1, 1};
  }
  // lay takes the lane's sums of tokens 8j to 8j + 7 of the turn.
  DEVICE void lay(int j, const typename Number::Sum* s) {
    float x0 = xs[j].first, x1 = xs[j].second;
    float d[4] = {Number::result(s[0], scale0, x0), Number::result(s[1], scale0, x1), Number::result(s[2], scale1, x0), Number::result(s[3], scale1, x1)};
    u32* line = (u32*)(lines + (j * 8 + lane() / 4) * LINE + (warp() & 3) * (COLS / 2) + lane() % 4 * 4);
    if (GATED) {
      line[0] = transpose8(pack(gate(d[0] + bias0) * (d[2] + bias1), gate(d[1] + bias0) * (d[3] + bias1)));
    } else {
      line[0] = transpose8(pack(d[0] + bias0, d[1] + bias0));
      line[4] = transpose8(pack(d[2] + bias1, d[3] + bias1));
    }
  }
  // write stores the lines of turn c.
  DEVICE void write(int c) {
    namedBarrier(1 + group, 128);
    for (int s = threadX() & 127; s < CHUNK * (COLS / 8); s += 128) {
      int line = s / (COLS / 8), token = row0 + c * CHUNK + line, col = column + s % (COLS / 8) * 8;
      if (token >= m || col >= part.n) continue;
      *(Vec16*)(part.y + (long)token * part.n + col) = *(const Vec16*)(lines + line * LINE + s % (COLS / 8) * 16);
    }
    namedBarrier(1 + group, 128);
  }
  // finish writes the turns whose bits are in mine, or all: without a branch the next turn's numbers are made during the stores of this one.
  template <bool ALL> DEVICE void finish(const typename Number::Sum* acc, u32 mine) {
    if (ALL) fetchScales(0);
    UNROLL for (int c = 0; c < TURNS; c++) {
      if (!ALL && !(mine >> c & 1)) continue;
      if (!ALL) fetchScales(c);
      UNROLL for (int j = 0; j < CHUNK / 8; j++) lay(j, acc + (c * (CHUNK / 8) + j) * 4);
      if (ALL && c + 1 < TURNS) fetchScales(c + 1);
      write(c);
    }
  }
};

// Stages is a ring in shared memory: the first one, and for each the barrier that tells when it is full and when it is empty again. A stage has
// a step's weights, W_BYTES, and behind them its x.
struct Stages { u32 at, full, empty; };

// fetchTiles keeps the copy engine busy with all of a block's work. One thread runs it.
template <int BN, int STAGES, int PAIR> DEVICE void fetchTiles(const GemmParams& p, Work work, int rank, Stages s) {
  constexpr int X_BYTES = BN * BK * 2, STAGE = W_BYTES + X_BYTES;
  u64 keep = p.rowTiles > 1 ? KEEP_LONG : KEEP_SHORT;
  auto fetchW = [&](const Place& at, int step, int stage) {
    u32 to = s.at + stage * STAGE, bar = s.full + stage * 8;
    barrierExpect(bar, STAGE);
    fetchBox(to, &p.w[at.part], step * BK, at.wRow, bar, keep);
  };
  auto fetchX = [&](const Place& at, int step, int stage) {
    u32 to = s.at + stage * STAGE + W_BYTES + rank * (X_BYTES / 2);
    if (PAIR > 1) fetchBoxPair(to, &p.x, step * BK, at.xRow + rank * (BN / 2), s.full + stage * 8, KEEP_LONG);
    else fetchBox(to, &p.x, step * BK, at.xRow, s.full + stage * 8, KEEP_LONG);
  };
  int ahead = mini(STAGES, work.count); // weights do not wait for the kernel before this one
  Work early = work;
  Place at = Place::of<BN, PAIR>(p, work.tile, rank), earlyAt = at;
  for (int i = 0; i < ahead; i++) {
    fetchW(earlyAt, early.step, i);
    if (early.next()) earlyAt = Place::of<BN, PAIR>(p, early.tile, rank);
  }
  awaitInput();
  Ring<STAGES> r;
  for (int i = 0; i < work.count; i++, r.next()) {
    if (i >= STAGES) {
      barrierWait(s.empty + r.stage * 8, r.phase ^ 1);
      fetchW(at, work.step, r.stage);
    }
    fetchX(at, work.step, r.stage);
    if (work.next()) at = Place::of<BN, PAIR>(p, work.tile, rank);
  }
}

// GATED: the one weight matrix has eight rows of the gate, then the same eight of the up matrix, and so on, so that a thread
// holds both numbers of a result (rows g and g + 8 of a product) and writes one.
//
// PAIR 2: two blocks of a cluster take neighbouring tiles of weights and the same tile of x, of which each fetches one half for
// both. That cuts the traffic from the L2 cache, which wide tiles run into before the tensor cores are busy, by a third.
template <typename Number, int BN, int STAGES, bool GATED, int PAIR> DEVICE void gemm(const GemmParams& p) {
  constexpr int STAGE = W_BYTES + BN * BK * 2;
  using Out = Writer<Number, BN, GATED>;
  SHARED static u64 bars[2 * STAGES];
  u32 ring = (sharedAddress(dynamic) + 1023) & ~1023u, full = sharedAddress(bars), empty = full + 8 * STAGES;
  u8* lines = dynamic + (ring - sharedAddress(dynamic)) + STAGES * STAGE; // the Writers'
  if (threadX() == 0) {
    for (int i = 0; i < STAGES; i++) barrierInit(full + 8 * i, 1), barrierInit(empty + 8 * i, PAIR * WORKERS / 32);
    barrierInitDone();
  }
  int rank = PAIR > 1 ? clusterRank() : 0;
  if (PAIR > 1) clusterBarrier();
  else barrier();
  releaseNext();
  Team team = {blockX() / PAIR, gridX() / PAIR};
  Work work(p, team);

  if (warp() < 4) { // the producer: one thread of four warps that need few registers
    keepRegisters<40>();
    if (threadX() == 0) fetchTiles<BN, STAGES, PAIR>(p, work, rank, {ring, full, empty});
    return;
  }

  takeRegisters<232>();
  awaitInput();
  int group = warp() / 4 - 1;
  typedef typename Number::Sum Sum;
  alignas(16) Sum acc[BN / 2];
  auto release = [&](int stage) __attribute__((always_inline)) { // to the producers that fill it: both blocks', of a pair
    if (lane() < PAIR) {
      if (PAIR > 1) barrierArriveAt(empty + stage * 8, lane());
      else barrierArrive(empty + stage * 8);
    }
  };
  Ring<STAGES> r;
  int steps = work.steps;
  Pieces<Sum, BN, PAIR, Out::TURNS> pieces = {p, team, steps, rank, (int)threadX() - 128};
  for (int done = 0; done < work.count;) {
    int tile = work.tile, n = work.here(), last = 0;
    bool head = done == 0;
    for (int j = 0; j < n; j++) {
      barrierWait(full + r.stage * 8, r.phase);
      u32 at = ring + r.stage * STAGE;
      u64 a = operand(at + group * (W_BYTES / 2)), b = operand(at + W_BYTES);
      productFence();
      UNROLL for (int k = 0; k < BK / 16; k++) Number::multiply(acc, a + 2 * k, b + 2 * k, j > 0 || k > 0);
      productCommit();
      productWait<1>(); // the step before this one is done: its stage may be filled again
      if (j > 0) release(last);
      last = r.stage;
      r.next();
    }
    productWait<0>();
    UNROLL for (int e = 0; e < BN / 2; e++) Number::settle(acc[e]);
    release(last);
    done += n;
    work.skip(n);

    u32 mine = n < steps ? pieces.join(tile, head, acc) : ~0u;
    if (mine == 0) continue;
    Out out(p, Place::of<BN, PAIR>(p, tile, rank), lines);
    if (n == steps) out.template finish<true>(acc, mine);
    else out.template finish<false>(acc, mine);
  }
  if (PAIR > 1) clusterBarrierLoose(); // the other block may still arrive at our barriers
}
#endif
} // namespace wide
