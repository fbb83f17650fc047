// GEMM with 2:4 sparse weights on Hopper; see sparse.h.
#include "sparse.h"
using namespace dense_sm90;

#if __CUDA_ARCH__ >= 900
struct SparseParams {
  GemmParams product;
  SparseWeights weights;
};
#define SPARSE_KERNEL(name, bn, xStages, wStages, gated, cluster) \
  KERNEL(384, 1) name(PARAM SparseParams p) { gemmSparse<bn, xStages, wStages, gated, cluster>(p.product, p.weights); }
SPARSE_KERNEL(sparse_gemm128, 128, 8, 4, false, 1)
SPARSE_KERNEL(sparse_gemm256, 256, 5, 2, false, 1)
SPARSE_KERNEL(sparse_gated128, 128, 8, 4, true, 1)
SPARSE_KERNEL(sparse_gated256, 256, 5, 2, true, 1)
SPARSE_KERNEL(sparse_gemm_cluster128, 128, 8, 4, false, 2)
SPARSE_KERNEL(sparse_gemm_cluster256, 256, 5, 2, false, 2)
SPARSE_KERNEL(sparse_gated_cluster128, 128, 8, 4, true, 2)
SPARSE_KERNEL(sparse_gated_cluster256, 256, 5, 2, true, 2)
#endif
