// The gated delta rule of prompts on Hopper, of keys of 128 numbers and values of a multiple of 64 (gated_delta_chunks.cu has the rule): the preparation of chunks,
// going through them (delta_wide.h), and both in one launch.
#if __CUDA_ARCH__ >= 900
#include "gated_delta_heads.h"

// prepareBlock is the work of a block that prepares a chunk for two value heads of a key head. The last of four warps has more to do than the first, and each
// has a scheduler of its own: blocks have them in another order each.
DEVICE void prepareBlock(const WideParams& c) {
  prepareHeads(c.chunks, *(HeadsShared*)dynamic, blockX(), blockY() / c.pairs, blockY() % c.pairs, (threadX() + 32 * blockX()) % 128, 1);
}
KERNEL(128, 6) gated_delta_wide_prepare(PARAM WideParams c) {
  launchDependentsAndWait();
  prepareBlock(c);
}

KERNEL(WIDE_THREADS, 1) gated_delta_wide_chunks(PARAM WideParams c) {
  launchDependentsAndWait();
  goThrough<GATED_DELTA>(c.chunks, &c.rows, 0, c.k, c.v, blockZ(), blockY(), blockX() * 64, {});
}

// In a step of one sequence with few heads most multiprocessors would be idle while the others go through chunks: gated_delta_wide_both has them prepare chunks
// meanwhile. Its first blocks go through chunks as they are prepared, which the others do in order, five groups of threads a block. So that the first ones need
// not wait, gated_delta_wide_first has prepared some, and marked which.
KERNEL(128, 6) gated_delta_wide_first(PARAM WideParams c) {
  launchDependentsAndWait();
  for (int i = blockX() + threadX() * gridX(); i < c.slots; i += 128 * gridX()) c.ready[i * gridY() + blockY()] = i < gridX();
  prepareBlock(c);
}

constexpr int GROUPS = 5;
KERNEL(GROUPS * 128, 1) gated_delta_wide_both(PARAM WideParams c) {
  launchDependentsAndWait();
  const DeltaParams& p = c.chunks.delta;
  int parts = p.valueSize / 64, scans = parts * p.valueHeads, units = p.keyHeads * c.pairs;
  if (blockX() < scans) {
    int h = blockX() / parts, kh = p.keyHead(h), v = p.tiled ? h / p.keyHeads : h % (p.valueHeads / p.keyHeads);
    goThrough<GATED_DELTA>(c.chunks, &c.rows, 0, c.k, c.v, 0, h, blockX() % parts * 64, {c.ready + kh * c.pairs + v / 2, units});
    return;
  }
  int group = uniform(warp()) / 4, groups = (gridX() - scans) * GROUPS;
#pragma unroll 1
  for (int i = c.first * units + (blockX() - scans) * GROUPS + group; i < c.slots * units; i += groups) {
    int thread = threadX() % 128;
    asm volatile("" : "+r"(thread)); // so that places are computed again, and not kept from chunk to chunk
    prepareHeads(c.chunks, ((HeadsShared*)dynamic)[group], i / units, i % units / c.pairs, i % units % c.pairs, thread, 1 + group);
    namedBarrierSync(1 + group, 128);
    if (threadX() % 128 == 0) asm volatile("fence.acq_rel.gpu;\n\tst.relaxed.gpu.global.b32 [%0], 1;" ::"l"(c.ready + i) : "memory");
  }
}
#endif
