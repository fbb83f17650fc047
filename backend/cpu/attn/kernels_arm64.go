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
	neon    = neonKernels([]scoreFunc{scoresx1Q}, []valueFunc{valuesx1Q}, roundQ)
	dotProd = neonKernels([]scoreFunc{scoresx1D, scoresx2D, scoresx3D}, []valueFunc{valuesx1D, valuesx2D, valuesx3D}, roundD)
)

// neonKernels have one way of rounding for queries and powers: with keys made signed there is no bias.
func neonKernels(scores []scoreFunc, values []valueFunc, round func(x, by *float32, n, rows int, most float32, scale *float32)) *kernels {
	return &kernels{
		lanes: 8, softmax: softmaxQ,
		products: [elementCount][]productFunc{
			F32:  {productF32x1Q, productF32x2Q, productF32x3Q, productF32x4Q, productF32x5Q, productF32x6Q},
			F16:  {productF16x1Q, productF16x2Q, productF16x3Q, productF16x4Q, productF16x5Q, productF16x6Q},
			BF16: {productBF16x1Q, productBF16x2Q, productBF16x3Q, productBF16x4Q, productBF16x5Q, productBF16x6Q},
		},
		bytes: byteKernels{
			scores: scores, values: values, roundPowers: round,
			roundQueries: func(x, by *float32, n, rows int, most float32, scale *float32, _ *int32) {
				round(x, by, n, rows, most, scale)
			},
		},
	}
}
