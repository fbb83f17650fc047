// The jobs of grouped_gemv.h, which each block computes itself: it routes the rows (top-k) and groups their slots by expert, in order of rows. That takes
// 1 to 2 µs, which the second product overlaps with the end of the first; a launch of its own takes twice as long.
#pragma once
#include "../gemm/packed/gemv.h"
#include "route.h"

// GemvJob is one expert with up to four rows.
struct alignas(16) GemvJob {
  int expert, count;
  u32 rows; // of x, a byte each
  int pad;
  int slot[4]; // of row r, its place k: r × top + k
};

struct GroupedGemvParams {
  const bf16* x;      // [rows, k], or of the second product [slots, k]
  const void* scores; // [rows, experts]
  const int* counts;  // see Step
  float* share;       // [slots] is written with the first product
  const u8* w;        // as in GroupedGemmParams
  const float *bias, *upBias; // [experts, n] or null
  bf16* y;            // [slots, n]
  long stride;
  int n, k;
  int rows, count;    // rows: the most; the step's number of them is counts[count]
  int runsLog;        // log2 of the split-K of a tile: its runs of columns, a warp each
  u32 ofTiles, ofGrid; // inverses of the tiles of a job and of the number of blocks; see divided
  int experts, top, ofAll, f32Scores; // f32Scores: scores are float32
  int fn;
  float clamp;
  int each; // the most rows of a job
};

constexpr int GEMV_JOBS = 256, GEMV_EXPERTS = 256, GEMV_TOP = 32, GEMV_ROWS = 32; // the largest supported

// ExpertRows is the rows of each expert, one bit each, and the expert's place among each row's top-k.
struct ExpertRows {
  u32 rows[GEMV_EXPERTS];
  u8 place[GEMV_ROWS][GEMV_EXPERTS];
};

// GemvJobs is a launch's jobs.
struct GemvJobs {
  GemvJob jobs[GEMV_JOBS];
  // before: jobs of each 32 experts; aligned, or the assembler's vector loads would include total, which another thread writes. pad makes the size a
  // multiple of 128 bytes.
  int before[GEMV_EXPERTS / 32], total, pad[23];
  // route finds the experts of rows, a warp for each, and makes the jobs.
  template <typename T> DEVICE void route(const GroupedGemvParams& p, ExpertRows& c, int rows, bool keep) {
    if (rows > 1) {
      for (int e = threadX(); e < GEMV_EXPERTS; e += threads()) c.rows[e] = 0;
      barrier();
    }
    for (int r = warp(); r < rows; r += GEMV_WARPS) {
      const T* scores = (const T*)p.scores + (long)r * p.experts;
      Chosen<1> of;
      if (p.experts <= 128) of = topK<T, 4, 1>(scores, p.experts, p.top, p.ofAll, keep);
      else of = topK<T, GEMV_EXPERTS / 32, 1>(scores, p.experts, p.top, p.ofAll, keep);
      int k = lane(), e = of.expert[0];
      if (k >= p.top) continue;
      if (keep) p.share[r * p.top + k] = of.share[0];
      if (rows == 1) {
        jobs[k] = GemvJob{e, 1, 0, 0, {k, 0, 0, 0}};
      } else {
        asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(sharedAddress(c.rows + e)), "r"(1u << r) : "memory");
        c.place[r][e] = k;
      }
    }
    if (rows <= 1 && threadX() == 0) total = rows * p.top; // one row: nothing to group
    barrier();
    if (rows > 1) makeJobs(p, c);
  }
  DEVICE void makeJobs(const GroupedGemvParams& p, const ExpertRows& c) {
    int e = threadX();
    u32 mine = e < GEMV_EXPERTS ? c.rows[e] : 0;
    int own = ceilDiv(ones(mine), 4), job = own;
    UNROLL for (int by = 1; by < 32; by *= 2) {
      int below = shuffleUp(job, by);
      if (lane() >= by) job += below;
    }
    if (lane() == 31 && e < GEMV_EXPERTS) before[warp()] = job;
    barrier();
    for (int w = 0; w < mini(warp(), GEMV_EXPERTS / 32); w++) job += before[w];
    if (e == GEMV_EXPERTS - 1) total = job;
    job -= own;
    for (int left = own; left > 0; left--, job++) { // of sizes that differ by one at most
      GemvJob n = {e, ceilDiv(ones(mine), left)};
      UNROLL for (int i = 0; i < 4; i++) {
        int r = i < n.count ? __builtin_ctz(mine) : 0;
        n.slot[i] = r * p.top + c.place[r][e], n.rows |= r << (8 * i);
        if (i < n.count) mine &= mine - 1;
      }
      jobs[job] = n;
    }
    barrier();
  }
};
