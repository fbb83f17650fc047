// The sizes of heads that prefill.h is made for; flash.go says which is for which GPU. Hopper has faster kernels for all of them.
#include "prefill.h"

#if __CUDA_ARCH__ < 900
KERNEL(128, 2) prefill64_bf16(PARAM PrefillParams p) { prefill<64, 96, 2, Bf16>(p); }
KERNEL(128, 2) prefill96_bf16(PARAM PrefillParams p) { prefill<96, 64, 2, Bf16>(p); }
KERNEL(128, 2) prefill96_tight_bf16(PARAM PrefillParams p) { prefill<96, 48, 2, Bf16>(p); }
KERNEL(128, 2) prefill128_bf16(PARAM PrefillParams p) { prefill<128, 64, 2, Bf16>(p); }
KERNEL(256, 1) prefill128_tight_bf16(PARAM PrefillParams p) { prefill<128, 64, 1, Bf16>(p); }
KERNEL(256, 1) prefill256_bf16(PARAM PrefillParams p) { prefill<256, 64, 1, Bf16>(p); }
KERNEL(256, 1) prefill256_tight_bf16(PARAM PrefillParams p) { prefill<256, 32, 1, Bf16>(p); }
KERNEL(128, 2) prefill64_f16(PARAM PrefillParams p) { prefill<64, 96, 2, Half>(p); }
KERNEL(128, 2) prefill96_f16(PARAM PrefillParams p) { prefill<96, 64, 2, Half>(p); }
KERNEL(128, 2) prefill96_tight_f16(PARAM PrefillParams p) { prefill<96, 48, 2, Half>(p); }
KERNEL(128, 2) prefill128_f16(PARAM PrefillParams p) { prefill<128, 64, 2, Half>(p); }
KERNEL(256, 1) prefill128_tight_f16(PARAM PrefillParams p) { prefill<128, 64, 1, Half>(p); }
KERNEL(256, 1) prefill256_f16(PARAM PrefillParams p) { prefill<256, 64, 1, Half>(p); }
KERNEL(256, 1) prefill256_tight_f16(PARAM PrefillParams p) { prefill<256, 32, 1, Half>(p); }
#endif
