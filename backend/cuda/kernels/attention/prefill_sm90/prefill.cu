// Attention of many new tokens a sequence over the paged cache, on Hopper: FlashAttention (Dao, arXiv:2307.08691; for Hopper
// Shah et al., arXiv:2407.08608). A tile is one query head of 128 rows of one sequence. Blocks stay, one a multiprocessor, and take
// tile after tile. Of each block one warp chooses the tiles and fetches their queries, one fetches keys and values, 128 at a
// time, a page at a time or pages that follow each other at once, both ahead of two warpgroups that take 64 rows each: scores into
// registers, a running softmax, and the product with the values, which runs while the next scores become weights. Keys that
// causality or the window hide are never fetched, and sequences of any length go in one launch without padding: the tiles' list is
// the step's.
#include "rows.h"

#if __CUDA_ARCH__ >= 900
extern SHARED u8 dynamic[];

template <int D, int STAGES, bool CAP, bool HALF> DEVICE void prefill(const PrefillParams& p) {
  SHARED static u64 barriers[Block<D / 64, STAGES>::BARRIERS];
  SHARED static Tile tiles[SLOTS];
  const Block<D / 64, STAGES> at(sharedAddress(dynamic), sharedAddress(barriers), tiles);
  if (threadX() == 0) at.init();
  barrier();
  launchDependents();
  if (warp() < 4) {
    setmaxnregDec<40>();
    gridDependencyWait();
    if (warp() == 0) at.fetch(p);
    if (warp() == 1) at.choose(p);
    return;
  }
  setmaxnregInc<232>();
  gridDependencyWait(); // what is written here may still be read by the launch before
  Rows<D, STAGES, CAP, HALF> rows(p, at);
  rows.compute();
}
KERNEL(384, 1) prefill64_bf16(PARAM PrefillParams p) { prefill<64, 4, false, false>(p); }
KERNEL(384, 1) prefill64_cap_bf16(PARAM PrefillParams p) { prefill<64, 4, true, false>(p); }
KERNEL(384, 1) prefill128_bf16(PARAM PrefillParams p) { prefill<128, 2, false, false>(p); }
KERNEL(384, 1) prefill128_cap_bf16(PARAM PrefillParams p) { prefill<128, 2, true, false>(p); }
KERNEL(384, 1) prefill64_f16(PARAM PrefillParams p) { prefill<64, 4, false, true>(p); }
KERNEL(384, 1) prefill64_cap_f16(PARAM PrefillParams p) { prefill<64, 4, true, true>(p); }
KERNEL(384, 1) prefill128_f16(PARAM PrefillParams p) { prefill<128, 2, false, true>(p); }
KERNEL(384, 1) prefill128_cap_f16(PARAM PrefillParams p) { prefill<128, 2, true, true>(p); }
#endif
