// Every kernel of a packed format. A .cu file of each format includes this with FORMAT defined, and with FLOAT_CODES where its codes are no whole
// numbers of eight bits, which GEMVs in integers want.
#ifndef FLOAT_CODES
#include "gemv_int8.h"
#endif
#include "gemv_bf16.h"
#include "dequantise.h"
#include "gemm_sm80.h"
#include "gemm_sm90.h"

// Shared memory of a block for 8 rows: room for two or three units of each warp in flight at least; more made it slower.
#if __CUDA_ARCH__ >= 900
constexpr int EIGHT_ROOM = (FORMAT::BYTES <= 640 ? 163 : 195) * 1024;
#else
constexpr int EIGHT_ROOM = 98 * 1024;
#endif
#ifndef FLOAT_CODES
KERNEL((GEMV_WARPS * 32), 1) gemv1(PARAM GemvParams p) { gemvInt8<FORMAT, 1, false>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv2(PARAM GemvParams p) { gemvInt8<FORMAT, 2, false>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv4(PARAM GemvParams p) { gemvInt8<FORMAT, 4, false>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv1_norm(PARAM GemvParams p) { gemvInt8<FORMAT, 1, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv2_norm(PARAM GemvParams p) { gemvInt8<FORMAT, 2, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv4_norm(PARAM GemvParams p) { gemvInt8<FORMAT, 4, true>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL((GEMV_WARPS * 32), 1) gemv1_split_k(PARAM GemvParams p) { gemvInt8<FORMAT, 1, false, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv2_split_k(PARAM GemvParams p) { gemvInt8<FORMAT, 2, false, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) gemv4_split_k(PARAM GemvParams p) { gemvInt8<FORMAT, 4, false, true>(p); }
#endif
#endif
KERNEL((GEMV_WARPS * 32), 1) gemv8(PARAM GemvParams p) { gemvBf16<FORMAT, EIGHT_ROOM>(p); }
KERNEL(256, 1) dequantise(PARAM DequantiseParams p) { dequantiseWeight<FORMAT>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL(640, 1) gemm8(PARAM GemmParams p) { gemm<FORMAT, 8>(p); }
KERNEL(640, 1) gemm16(PARAM GemmParams p) { gemm<FORMAT, 16>(p); }
KERNEL(640, 1) gemm32(PARAM GemmParams p) { gemm<FORMAT, 32>(p); }
KERNEL(384, 1) gemm64(PARAM GemmParams p) { gemm<FORMAT, 64>(p); }
KERNEL(384, 1) gemm128(PARAM GemmParams p) { gemm<FORMAT, 128>(p); }
KERNEL(384, 1) gemm256(PARAM GemmParams p) { gemm<FORMAT, 256>(p); }
#else
KERNEL(256, 2) gemm_mma_sync16(PARAM GemmSm80Params p) { gemmSm80<FORMAT, 2>(p); }
KERNEL(256, 2) gemm_mma_sync32(PARAM GemmSm80Params p) { gemmSm80<FORMAT, 4>(p); }
#endif
