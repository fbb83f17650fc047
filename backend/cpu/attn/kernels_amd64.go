package attn

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier; the integer and bf16 variants of a width share these.
func kernelsOf(tier gemm.Tier) *kernels {
	switch tier {
	case gemm.Generic:
		return generic
	case gemm.AVX2:
		return avx2
	case gemm.AVXVNNI:
		return avxVNNI
	default:
		return avx512
	}
}

// avx2 is AVX2 with FMA and F16C.
var avx2 = avx2Kernels(int8Kernels{
	qk:        []qkInt8Func{qkInt8x1Y, qkInt8x2Y, qkInt8x3Y},
	pv:        []pvInt8Func{pvInt8x1Y, pvInt8x2Y, pvInt8x3Y},
	quantizeQ: quantizeQY, quantizeP: quantizePY,
})

var avxVNNI = avx2Kernels(int8Kernels{
	qk:        []qkInt8Func{qkInt8x1V, qkInt8x2V, qkInt8x3V},
	pv:        []pvInt8Func{pvInt8x1V, pvInt8x2V, pvInt8x3V},
	quantizeQ: quantizeQV, quantizeP: quantizePV,
})

func avx2Kernels(i8 int8Kernels) *kernels {
	return &kernels{
		lanes: 8, softmax: softmaxY, i8: i8, int4: unpackInt4Y,
		matmuls: [elementCount][]matmulFunc{
			F32:  {matmulF32x1Y, matmulF32x2Y, matmulF32x3Y, matmulF32x4Y, matmulF32x5Y, matmulF32x6Y},
			F16:  {matmulF16x1Y, matmulF16x2Y, matmulF16x3Y, matmulF16x4Y, matmulF16x5Y, matmulF16x6Y},
			BF16: {matmulBF16x1Y, matmulBF16x2Y, matmulBF16x3Y, matmulBF16x4Y, matmulBF16x5Y, matmulBF16x6Y},
		},
	}
}

// avx512 is AVX-512.
var avx512 = &kernels{
	lanes: 16, softmax: softmaxZ, int4: unpackInt4Z,
	matmuls: [elementCount][]matmulFunc{
		F32: {
			matmulF32x1Z, matmulF32x2Z, matmulF32x3Z, matmulF32x4Z, matmulF32x5Z, matmulF32x6Z,
			matmulF32x7Z, matmulF32x8Z, matmulF32x9Z, matmulF32x10Z, matmulF32x11Z, matmulF32x12Z,
		},
		F16: {
			matmulF16x1Z, matmulF16x2Z, matmulF16x3Z, matmulF16x4Z, matmulF16x5Z, matmulF16x6Z,
			matmulF16x7Z, matmulF16x8Z, matmulF16x9Z, matmulF16x10Z, matmulF16x11Z, matmulF16x12Z,
		},
		BF16: {
			matmulBF16x1Z, matmulBF16x2Z, matmulBF16x3Z, matmulBF16x4Z, matmulBF16x5Z, matmulBF16x6Z,
			matmulBF16x7Z, matmulBF16x8Z, matmulBF16x9Z, matmulBF16x10Z, matmulBF16x11Z, matmulBF16x12Z,
		},
	},
	i8: int8Kernels{
		qk:        []qkInt8Func{qkInt8x1Z, qkInt8x2Z, qkInt8x3Z, qkInt8x4Z, qkInt8x5Z, qkInt8x6Z},
		pv:        []pvInt8Func{pvInt8x1Z, pvInt8x2Z, pvInt8x3Z, pvInt8x4Z, pvInt8x5Z, pvInt8x6Z},
		quantizeQ: quantizeQZ, quantizeP: quantizePZ,
	},
}
