package attn

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier; those with products of integers or bf16 share these.
func kernelsOf(tier gemm.Tier) *kernels {
	if tier == gemm.Generic {
		return generic
	}
	return neon
}

// neon is ASIMD as every arm64 processor has it.
var neon = &kernels{
	lanes: 8, softmax: softmaxQ,
	products: [elementCount][]productFunc{
		F32:  {productF32x1Q, productF32x2Q, productF32x3Q, productF32x4Q, productF32x5Q, productF32x6Q},
		F16:  {productF16x1Q, productF16x2Q, productF16x3Q, productF16x4Q, productF16x5Q, productF16x6Q},
		BF16: {productBF16x1Q, productBF16x2Q, productBF16x3Q, productBF16x4Q, productBF16x5Q, productBF16x6Q},
		I8:   {productI8x1Q, productI8x2Q, productI8x3Q, productI8x4Q, productI8x5Q, productI8x6Q},
	},
}
