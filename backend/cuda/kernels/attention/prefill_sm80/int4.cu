// Prompts over a KV cache in four bits, on any GPU: see Grouped in prefill.h. Sizes of heads and of tiles are those of prefill.cu.
#include "prefill.h"

struct Int4PrefillParams {
  PrefillParams prefill; // whose cache and pages are dequantised ones (quant/kv4)
  NewestPages newest;
};
#define INT4(name, threads, blocks, d, keys, bands) \
  KERNEL(threads, blocks) name##_i4(PARAM Int4PrefillParams p) { prefillTiles<d, keys, bands, Half, Grouped<keys>>(p.prefill, p.newest); }
INT4(prefill64, 128, 2, 64, 96, 2)
INT4(prefill96, 128, 2, 96, 64, 2)
INT4(prefill96_tight, 128, 2, 96, 48, 2)
INT4(prefill128, 128, 2, 128, 64, 2)
INT4(prefill128_tight, 256, 1, 128, 64, 1)
INT4(prefill256, 256, 1, 256, 64, 1)
INT4(prefill256_tight, 256, 1, 256, 32, 1)
