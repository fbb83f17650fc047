// Writing rows of a latent cache, which are keys alone: each comes in up to two parts, one behind the other.
#include "../quant/per_token/round.h"

struct LatentWriteParams {
  Step step;
  const void *a, *b; // [T, aLen], [T, bLen]
  u8* cache;
  int aLen, bLen;
};

template <typename T, typename C> DEVICE void latentWrite(const LatentWriteParams& p) {
  SHARED static float most[8];
  launchDependentsAndWait();
  int r = blockX(), length = p.aLen + p.bLen;
  if (r >= p.step.counts[COUNT_TOKENS]) return;
  const T *a = (const T*)p.a + (long)r * p.aLen, *b = (const T*)p.b + (long)r * p.bLen;
  auto number = [&](int i) { return toFloat(i < p.aLen ? a[i] : b[i - p.aLen]); };
  int slot = p.step.slots[r], shift = p.step.pageShift, in = slot & ((1 << shift) - 1);
  u8* page = p.cache + ((long)(slot >> shift) * (length * (int)sizeof(C) + SCALE_BYTES<C>) << shift);
  float inverse = 1;
  if (SCALE_BYTES<C>) {
    float largest = 0;
    for (int i = threadX(); i < length; i += threads()) largest = maxf(largest, __builtin_fabsf(number(i)));
    largest = warpMax(largest);
    if (lane() == 0) most[warp()] = largest;
    barrier();
    for (int w = 0; w < 8; w++) largest = maxf(largest, most[w]);
    inverse = largest == 0 ? 0 : 127 / largest;
    if (threadX() == 0) ((float*)(page + ((long)length << shift)))[in] = largest * (float)(1.0 / 127);
  }
  for (int i = threadX(); i < length; i += threads()) ((C*)page)[(long)in * length + i] = fromFloat<C>(number(i) * inverse);
}
KERNEL(256, 1) latent_write_f32_f32(PARAM LatentWriteParams p) { latentWrite<float, float>(p); }
KERNEL(256, 1) latent_write_f32_f16(PARAM LatentWriteParams p) { latentWrite<float, f16>(p); }
KERNEL(256, 1) latent_write_f32_bf16(PARAM LatentWriteParams p) { latentWrite<float, bf16>(p); }
KERNEL(256, 1) latent_write_f32_i8(PARAM LatentWriteParams p) { latentWrite<float, i8>(p); }
KERNEL(256, 1) latent_write_f32_f8(PARAM LatentWriteParams p) { latentWrite<float, f8>(p); }
KERNEL(256, 1) latent_write_bf16_f32(PARAM LatentWriteParams p) { latentWrite<bf16, float>(p); }
KERNEL(256, 1) latent_write_bf16_f16(PARAM LatentWriteParams p) { latentWrite<bf16, f16>(p); }
KERNEL(256, 1) latent_write_bf16_bf16(PARAM LatentWriteParams p) { latentWrite<bf16, bf16>(p); }
KERNEL(256, 1) latent_write_bf16_i8(PARAM LatentWriteParams p) { latentWrite<bf16, i8>(p); }
KERNEL(256, 1) latent_write_bf16_f8(PARAM LatentWriteParams p) { latentWrite<bf16, f8>(p); }
