package attn

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier; those with products of integers or bf16 share these.
func kernelsOf(tier gemm.Tier) *kernels {
	switch tier {
	case gemm.Generic:
		return generic
	case gemm.NEON:
		return neon
	default:
		return dotProd
	}
}

// neon is ASIMD as every arm64 processor has it, dotProd that with SDOT for bytes.
var (
	neon    = neonKernels([]qkInt8Func{qkInt8x1Q}, []pvInt8Func{pvInt8x1Q}, quantizeQ)
	dotProd = neonKernels([]qkInt8Func{qkInt8x1D, qkInt8x2D, qkInt8x3D}, []pvInt8Func{pvInt8x1D, pvInt8x2D, pvInt8x3D}, quantizeD)
)

// neonKernels have one quantization for Q and P: with keys made signed there is no bias.
func neonKernels(qk []qkInt8Func, pv []pvInt8Func, quantize func(x, by *float32, n, rows int, most float32, scale *float32)) *kernels {
	return &kernels{
		lanes: 8, softmax: softmaxQ, int4: genericInt4,
		matmuls: [elementCount][]matmulFunc{
			F32:  {matmulF32x1Q, matmulF32x2Q, matmulF32x3Q, matmulF32x4Q, matmulF32x5Q, matmulF32x6Q},
			F16:  {matmulF16x1Q, matmulF16x2Q, matmulF16x3Q, matmulF16x4Q, matmulF16x5Q, matmulF16x6Q},
			BF16: {matmulBF16x1Q, matmulBF16x2Q, matmulBF16x3Q, matmulBF16x4Q, matmulBF16x5Q, matmulBF16x6Q},
		},
		i8: int8Kernels{
			qk: qk, pv: pv, quantizeP: quantize,
			quantizeQ: func(x, by *float32, n, rows int, most float32, scale *float32, _ *int32) {
				quantize(x, by, n, rows, most, scale)
			},
		},
	}
}
