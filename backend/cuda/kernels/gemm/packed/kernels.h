// Every kernel of a packed format. A .cu file of each format includes this with FORMAT defined.
#include "gemv_int8.h"
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
KERNEL((GEMV_WARPS * 32), 1) one(PARAM GemvParams p) { gemvInt8<FORMAT, 1, false>(p); }
KERNEL((GEMV_WARPS * 32), 1) two(PARAM GemvParams p) { gemvInt8<FORMAT, 2, false>(p); }
KERNEL((GEMV_WARPS * 32), 1) four(PARAM GemvParams p) { gemvInt8<FORMAT, 4, false>(p); }
KERNEL((GEMV_WARPS * 32), 1) one_norm(PARAM GemvParams p) { gemvInt8<FORMAT, 1, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) two_norm(PARAM GemvParams p) { gemvInt8<FORMAT, 2, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) four_norm(PARAM GemvParams p) { gemvInt8<FORMAT, 4, true>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL((GEMV_WARPS * 32), 1) one_pair(PARAM GemvParams p) { gemvInt8<FORMAT, 1, false, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) two_pair(PARAM GemvParams p) { gemvInt8<FORMAT, 2, false, true>(p); }
KERNEL((GEMV_WARPS * 32), 1) four_pair(PARAM GemvParams p) { gemvInt8<FORMAT, 4, false, true>(p); }
#endif
KERNEL((GEMV_WARPS * 32), 1) eight(PARAM GemvParams p) { gemvBf16<FORMAT, EIGHT_ROOM>(p); }
KERNEL(256, 1) open(PARAM DequantiseParams p) { dequantiseWeight<FORMAT>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL(640, 1) wide8(PARAM GemmParams p) { gemm<FORMAT, 8>(p); }
KERNEL(640, 1) wide16(PARAM GemmParams p) { gemm<FORMAT, 16>(p); }
KERNEL(640, 1) wide32(PARAM GemmParams p) { gemm<FORMAT, 32>(p); }
KERNEL(384, 1) wide64(PARAM GemmParams p) { gemm<FORMAT, 64>(p); }
KERNEL(384, 1) wide128(PARAM GemmParams p) { gemm<FORMAT, 128>(p); }
KERNEL(384, 1) wide256(PARAM GemmParams p) { gemm<FORMAT, 256>(p); }
#else
KERNEL(256, 2) rows16(PARAM GemmSm80Params p) { gemmSm80<FORMAT, 2>(p); }
KERNEL(256, 2) rows32(PARAM GemmSm80Params p) { gemmSm80<FORMAT, 4>(p); }
#endif
