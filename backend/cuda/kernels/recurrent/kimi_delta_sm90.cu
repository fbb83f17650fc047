// Going through the chunks of Kimi's delta rule's prompts on Hopper, of keys of 128 numbers and values of a multiple of 64 (kimi_delta_chunks.cu prepares them).
#if __CUDA_ARCH__ >= 900
#include "delta_wide.h"

struct WideParams {
  TensorMap values; // in boxes of 64 rows of 64 numbers
  DeltaChunksParams chunks;
};

KERNEL(WIDE_THREADS, 1) kimi_delta_wide_chunks(PARAM WideParams c) {
  launchDependentsAndWait();
  goThrough<KIMI_DELTA>(c.chunks, &c.values, 0, 0, 0, blockZ(), blockY(), blockX() * 64, {});
}
#endif
