// The epilogue of a tile: scales, bias or gated activation, and the store to Y.
#pragma once
#include "../../activation.h"
#include "../../mma_ops.h"
#include "tile_scheduler.h"

namespace dense_sm90 {
#if __CUDA_ARCH__ >= 900
// Gate is the activation of a gated problem, x sigmoid(x (a + b x²)): silu, or gelu by its tanh, since (1 + tanh(u)) / 2 is sigmoid(2u).
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

// loadOrZero loads 16 bytes, or none where they are not valid, without a branch.
DEVICE Vec16 loadOrZero(const void* p, bool valid) {
  Vec16 v;
  asm volatile("{\n\t.reg .pred valid;\n\tsetp.ne.b32 valid, %5, 0;\n\tmov.b32 %0, 0;\n\tmov.b32 %1, 0;\n\tmov.b32 %2, 0;\n\tmov.b32 %3, 0;\n\t"
               "@valid ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
               : "=&r"(v.x[0]), "=&r"(v.x[1]), "=&r"(v.x[2]), "=&r"(v.x[3]) : "l"(p), "r"((int)valid) : "memory");
  return v;
}

// Deltas is what adapters add to the results of a launch, before the gate where it has one.
struct Deltas {
  const bf16* delta[3]; // of each part, [m, n]; of a gated launch the gate's
  const bf16* up;       // [m, n] of a gated launch
  const int* places;    // [m] negative for a row that has none: what lies there is not read
};

// Epilogue scales a tile, adds the bias or applies the gate, and stores it, CHUNK tokens at a time: each warpgroup transposes its columns of Y through
// lines of shared memory, a token's numbers side by side, and then writes them out 16 bytes a thread.
template <typename MmaOp, int BN, bool GATED, bool DELTA> struct Epilogue {
  // CHUNK: tokens; COLS: columns of Y of a warpgroup; LINE: bytes of a line of them; SIDES: of deltas, gate and up; EACH: a thread's vectors of a side.
  static constexpr int CHUNK = BN < 32 ? 8 : BN / 4, CHUNKS = BN / CHUNK, COLS = GATED ? 32 : 64, LINE = COLS * 2 + 16;
  static constexpr int SIDES = GATED ? 2 : 1, SIDE = CHUNK * LINE, EACH = (CHUNK * COLS / 8 + 127) / 128;
  const Part& part;
  const float* xScale;
  const bf16* delta[SIDES];
  const int* places;
  u8* lines;
  Gate gate;
  int group, column, row0, m;
  float bias0 = 0, bias1 = 0, scale0 = 1, scale1 = 1;
  Scales xs[CHUNK / 8]; // of the current chunk's tokens

  DEVICE Epilogue(const GemmParams& p, const WorkTile& at, u8* all, const Deltas* deltas) // all: both warpgroups' lines
      : part(p.part[at.part]), xScale(p.xScale), gate(p.fn), group(warp() / 4 - 1), row0(at.xRow), m(p.m) {
    lines = all + group * (DELTA ? SIDES * SIDE : SIDE);
    if (DELTA) {
      delta[0] = deltas->delta[at.part], places = deltas->places;
      if (GATED) delta[SIDES - 1] = deltas->up;
    }
    column = (GATED ? at.wRow / 2 : at.wRow) + group * COLS;
    int col = column + (warp() & 3) * (COLS / 4) + lane() / 4, col1 = GATED ? col : col + 8;
    const float *b1 = GATED ? part.bias2 : part.bias, *s1 = GATED ? part.scale2 : part.scale;
    if (part.bias && col < part.n) bias0 = part.bias[col];
    if (b1 && col1 < part.n) bias1 = b1[col1];
    if (MmaOp::SCALED && col < part.n) scale0 = part.scale[col];
    if (MmaOp::SCALED && col1 < part.n) scale1 = s1[col1];
  }
  DEVICE void loadScales(int c) { // of chunk c; where all chunks are written, loaded a chunk ahead
    UNROLL for (int j = 0; j < CHUNK / 8; j++)
      xs[j] = MmaOp::SCALED ? scalesAt(xScale, mini(row0 + c * CHUNK + j * 8 + lane() % 4 * 2, (m - 1) & ~1)) : Scales{1, 1};
  }
  // fetch loads the deltas of chunk c, put brings them to the lines, and deltaAt gives those of two tokens for a word of a line.
  DEVICE void fetch(int c, Vec16 (&v)[SIDES][EACH]) const {
    UNROLL for (int i = 0; i < EACH; i++) {
      int s = (threadX() & 127) + 128 * i, token = row0 + c * CHUNK + s / (COLS / 8), col = column + s % (COLS / 8) * 8;
      bool valid = s < CHUNK * (COLS / 8) && token < m && col < part.n && places[token] >= 0;
      UNROLL for (int side = 0; side < SIDES; side++) v[side][i] = loadOrZero(delta[side] + (long)token * part.n + col, valid);
    }
  }
  DEVICE void put(const Vec16 (&v)[SIDES][EACH]) {
    UNROLL for (int i = 0; i < EACH; i++) {
      int s = (threadX() & 127) + 128 * i;
      if (s >= CHUNK * (COLS / 8)) continue;
      UNROLL for (int side = 0; side < SIDES; side++) *(Vec16*)(lines + side * SIDE + s / (COLS / 8) * LINE + s % (COLS / 8) * 16) = v[side][i];
    }
    namedBarrierSync(1 + group, 128);
  }
  DEVICE Scales deltaAt(const u32* word) const {
    u32 two = transpose8(*word);
    return {low(two), high(two)};
  }
  // stage puts the lane's results of tokens 8j to 8j + 7 of the chunk into shared memory.
  DEVICE void stage(int j, const typename MmaOp::Accumulator* s) {
    float x0 = xs[j].first, x1 = xs[j].second;
    float d[4] = {MmaOp::result(s[0], scale0, x0), MmaOp::result(s[1], scale0, x1), MmaOp::result(s[2], scale1, x0), MmaOp::result(s[3], scale1, x1)};
    u32* line = (u32*)(lines + (j * 8 + lane() / 4) * LINE + (warp() & 3) * (COLS / 2) + lane() % 4 * 4);
    if (DELTA) { // at the places of the lane's results
      Scales first = deltaAt(line), second = deltaAt(GATED ? line + SIDE / 4 : line + 4);
      d[0] += first.first, d[1] += first.second, d[2] += second.first, d[3] += second.second;
    }
    if (GATED) {
      line[0] = transpose8(pack(gate(d[0] + bias0) * (d[2] + bias1), gate(d[1] + bias0) * (d[3] + bias1)));
    } else {
      line[0] = transpose8(pack(d[0] + bias0, d[1] + bias0));
      line[4] = transpose8(pack(d[2] + bias1, d[3] + bias1));
    }
  }
  // store writes the lines of chunk c to Y.
  DEVICE void store(int c) {
    namedBarrierSync(1 + group, 128);
    for (int s = threadX() & 127; s < CHUNK * (COLS / 8); s += 128) {
      int line = s / (COLS / 8), token = row0 + c * CHUNK + line, col = column + s % (COLS / 8) * 8;
      if (token >= m || col >= part.n) continue;
      *(Vec16*)(part.y + (long)token * part.n + col) = *(const Vec16*)(lines + line * LINE + s % (COLS / 8) * 16);
    }
    namedBarrierSync(1 + group, 128);
  }
  // run stores the chunks whose bits are in mine, or all: without a branch the next chunk is computed during the stores of this one.
  template <bool ALL> DEVICE void run(const typename MmaOp::Accumulator* acc, u32 mine) {
    Vec16 deltas[SIDES][EACH];
    auto load = [&](int c) __attribute__((always_inline)) {
      loadScales(c);
      if (DELTA) fetch(c, deltas);
    };
    if (ALL) load(0);
    UNROLL for (int c = 0; c < CHUNKS; c++) {
      if (!ALL && !(mine >> c & 1)) continue;
      if (!ALL) load(c);
      if (DELTA) put(deltas);
      UNROLL for (int j = 0; j < CHUNK / 8; j++) stage(j, acc + (c * (CHUNK / 8) + j) * 4);
      if (ALL && c + 1 < CHUNKS) load(c + 1);
      store(c);
    }
  }
};
#endif
} // namespace dense_sm90
