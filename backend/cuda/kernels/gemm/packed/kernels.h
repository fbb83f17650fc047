// Every kernel of a format. A .cu file of each format includes this with FORMAT defined, so that a model's start assembles only what it uses.
#include "digits.h"
#include "few.h"
#include "open.h"
#include "rows.h"
#include "wide.h"

// Shared memory of a block for 8 rows: room for two or three units of each warp under way at least; more made it slower.
#if __CUDA_ARCH__ >= 900
constexpr int EIGHT_ROOM = (FORMAT::BYTES <= 640 ? 163 : 195) * 1024;
#else
constexpr int EIGHT_ROOM = 98 * 1024;
#endif
KERNEL((FEW_WARPS * 32), 1) one(PARAM FewParams p) { digits<FORMAT, 1, false>(p); }
KERNEL((FEW_WARPS * 32), 1) two(PARAM FewParams p) { digits<FORMAT, 2, false>(p); }
KERNEL((FEW_WARPS * 32), 1) four(PARAM FewParams p) { digits<FORMAT, 4, false>(p); }
KERNEL((FEW_WARPS * 32), 1) one_norm(PARAM FewParams p) { digits<FORMAT, 1, true>(p); }
KERNEL((FEW_WARPS * 32), 1) two_norm(PARAM FewParams p) { digits<FORMAT, 2, true>(p); }
KERNEL((FEW_WARPS * 32), 1) four_norm(PARAM FewParams p) { digits<FORMAT, 4, true>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL((FEW_WARPS * 32), 1) one_pair(PARAM FewParams p) { digits<FORMAT, 1, false, true>(p); }
KERNEL((FEW_WARPS * 32), 1) two_pair(PARAM FewParams p) { digits<FORMAT, 2, false, true>(p); }
KERNEL((FEW_WARPS * 32), 1) four_pair(PARAM FewParams p) { digits<FORMAT, 4, false, true>(p); }
#endif
KERNEL((FEW_WARPS * 32), 1) eight(PARAM FewParams p) { few<FORMAT, EIGHT_ROOM>(p); }
KERNEL(256, 1) open(PARAM OpenParams p) { open<FORMAT>(p); }
#if __CUDA_ARCH__ >= 900
KERNEL(640, 1) wide8(PARAM WideParams p) { wide<FORMAT, 8>(p); }
KERNEL(640, 1) wide16(PARAM WideParams p) { wide<FORMAT, 16>(p); }
KERNEL(640, 1) wide32(PARAM WideParams p) { wide<FORMAT, 32>(p); }
KERNEL(384, 1) wide64(PARAM WideParams p) { wide<FORMAT, 64>(p); }
KERNEL(384, 1) wide128(PARAM WideParams p) { wide<FORMAT, 128>(p); }
KERNEL(384, 1) wide256(PARAM WideParams p) { wide<FORMAT, 256>(p); }
#else
KERNEL(256, 2) rows16(PARAM RowsParams p) { rows<FORMAT, 2>(p); }
KERNEL(256, 2) rows32(PARAM RowsParams p) { rows<FORMAT, 4>(p); }
#endif
