// Moving rows: embedding lookup, selecting the rows whose logits are wanted, and the KV cache write. These guard
// against rows beyond the step's count, because a CUDA graph launches for its whole bucket.
#include "../kv_cache.h"

struct EmbedParams {
  Step step;
  const void* table; // [vocab, n]
  void* y;           // [T, n]
  const int* previous; // tokens that the previous step sampled: id -1-i of this step is a placeholder for its sample i
  const int* index;  // [T] rows of the table
  int n;
  float scale;
  int known; // rows of the table where other ids look up row 0; 0: every id has one
  int first, held; // of a table that is divided by rows: the ids that it has, of which others give rows of 0; held 0: it is whole
};

template <typename W, typename T> DEVICE void embed(const EmbedParams& p) {
  launchDependentsAndWait();
  int r = blockX();
  if (r >= p.step.counts[COUNT_TOKENS]) return;
  long id = p.index[r];
  if (id < 0) id = p.previous[-1 - id];
  if (p.known && id >= p.known) id = 0;
  id -= p.first;
  if (p.held && (id < 0 || id >= p.held)) {
    for (int i = threadX(); i < p.n; i += threads()) ((T*)p.y)[(long)r * p.n + i] = fromFloat<T>(0);
    return;
  }
  for (int i = threadX(); i < p.n; i += threads())
    ((T*)p.y)[(long)r * p.n + i] = fromFloat<T>(toFloat(((const W*)p.table)[id * p.n + i]) * p.scale);
}
KERNEL(256, 1) embed_f32_f32(PARAM EmbedParams p) { embed<float, float>(p); }
KERNEL(256, 1) embed_bf16_f32(PARAM EmbedParams p) { embed<bf16, float>(p); }
KERNEL(256, 1) embed_bf16_bf16(PARAM EmbedParams p) { embed<bf16, bf16>(p); }

struct SelectParams {
  Step step;
  const void* x; // [T, words]
  void* y;       // [L, words]
  int words;
};
template <typename W> DEVICE void selectRows(const SelectParams& p) {
  launchDependentsAndWait();
  int r = blockX();
  if (r >= p.step.counts[COUNT_LOGITS]) return;
  long from = p.step.logitsIndices[r];
  for (int i = threadX(); i < p.words; i += threads()) ((W*)p.y)[(long)r * p.words + i] = ((const W*)p.x)[from * p.words + i];
}
KERNEL(256, 1) select_u32(PARAM SelectParams p) { selectRows<u32>(p); }
KERNEL(256, 1) select_u16(PARAM SelectParams p) { selectRows<u16>(p); } // odd rows of 16-bit numbers

struct KVWriteParams {
  Step step;
  const void *k, *v; // [T, kLen], [T, vLen]
  u8* cache;
  int kLen, vLen;
};

template <typename T, typename C> DEVICE void kvWrite(const KVWriteParams& p) {
  launchDependentsAndWait();
  int r = blockX();
  if (r >= p.step.counts[COUNT_TOKENS]) return;
  Pages<C> cache = {p.cache, 1, p.kLen, p.vLen, p.step.pageShift}; // all heads of a token as one
  int slot = p.step.slots[r], page = slot >> p.step.pageShift;
  C *k = cache.key(page, slot, 0), *v = cache.value(page, slot, 0);
  for (int i = threadX(); i < p.kLen; i += threads()) k[i] = fromFloat<C>(toFloat(((const T*)p.k)[(long)r * p.kLen + i]));
  for (int i = threadX(); i < p.vLen; i += threads()) v[i] = fromFloat<C>(toFloat(((const T*)p.v)[(long)r * p.vLen + i]));
}
KERNEL(256, 1) kv_write_f32_f32(PARAM KVWriteParams p) { kvWrite<float, float>(p); }
KERNEL(256, 1) kv_write_f32_f16(PARAM KVWriteParams p) { kvWrite<float, f16>(p); }
KERNEL(256, 1) kv_write_f32_bf16(PARAM KVWriteParams p) { kvWrite<float, bf16>(p); }
KERNEL(256, 1) kv_write_bf16_f32(PARAM KVWriteParams p) { kvWrite<bf16, float>(p); }
KERNEL(256, 1) kv_write_bf16_f16(PARAM KVWriteParams p) { kvWrite<bf16, f16>(p); }
KERNEL(256, 1) kv_write_bf16_bf16(PARAM KVWriteParams p) { kvWrite<bf16, bf16>(p); }
