// FlashAttention of prompts (many new tokens a sequence) over the paged KV cache, on Hopper (Dao, arXiv:2307.08691; FlashAttention-3: Shah et al.,
// arXiv:2407.08608). A tile is one query head of 128 rows of one sequence. The kernel is persistent, one block a multiprocessor, and warp-specialised:
// one producer warp schedules tiles and loads their queries by TMA, one loads keys and values, 128 at a time, a page at a time or consecutive pages at
// once, both ahead of two consumer warpgroups of 64 rows each: scores (Q × K') into registers, online softmax, and P × V, which runs while the next
// scores become P. Keys that causality or the window mask are never loaded, and sequences of any length go in one launch without padding: the list of
// tiles is the step's.
#include "consumer.h"

#if __CUDA_ARCH__ >= 900
extern SHARED u8 dynamic[];

template <int D, int STAGES, bool CAP, bool HALF> DEVICE void prefill(const PrefillParams& p) {
  SHARED static u64 barriers[SharedStorage<D / 64, STAGES>::BARRIERS];
  SHARED static Tile tiles[TILE_STAGES];
  const SharedStorage<D / 64, STAGES> at(sharedAddress(dynamic), sharedAddress(barriers), tiles);
  if (threadX() == 0) at.init();
  barrier();
  launchDependents();
  if (warp() < 4) {
    setmaxnregDec<40>();
    gridDependencyWait();
    if (warp() == 0) at.produceKV(p);
    if (warp() == 1) at.scheduleTiles(p);
    return;
  }
  setmaxnregInc<232>();
  gridDependencyWait(); // what is written here may still be read by the launch before
  Consumer<D, STAGES, CAP, HALF> consumer(p, at);
  consumer.compute();
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
