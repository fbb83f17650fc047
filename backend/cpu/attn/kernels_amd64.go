package attn

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier; the integer and bf16 variants of a width share these.
func kernelsOf(tier gemm.Tier) *kernels {
	switch tier {
	case gemm.Generic:
		return generic
	case gemm.AVX2:
		return narrow
	case gemm.AVXVNNI:
		return narrowVNNI
	default:
		return wide
	}
}

// narrow is AVX2 with FMA and F16C.
var narrow = narrowKernels(byteKernels{
	scores:       []scoreFunc{scoresx1Y, scoresx2Y, scoresx3Y},
	values:       []valueFunc{valuesx1Y, valuesx2Y, valuesx3Y},
	roundQueries: roundQueriesY, roundPowers: roundPowersY,
})

var narrowVNNI = narrowKernels(byteKernels{
	scores:       []scoreFunc{scoresx1V, scoresx2V, scoresx3V},
	values:       []valueFunc{valuesx1V, valuesx2V, valuesx3V},
	roundQueries: roundQueriesV, roundPowers: roundPowersV,
})

func narrowKernels(bytes byteKernels) *kernels {
	return &kernels{
		lanes: 8, softmax: softmaxY, bytes: bytes,
		products: [elementCount][]productFunc{
			F32:  {productF32x1Y, productF32x2Y, productF32x3Y, productF32x4Y, productF32x5Y, productF32x6Y},
			F16:  {productF16x1Y, productF16x2Y, productF16x3Y, productF16x4Y, productF16x5Y, productF16x6Y},
			BF16: {productBF16x1Y, productBF16x2Y, productBF16x3Y, productBF16x4Y, productBF16x5Y, productBF16x6Y},
		},
	}
}

// wide is AVX-512.
var wide = &kernels{
	lanes: 16, softmax: softmaxZ,
	products: [elementCount][]productFunc{
		F32: {
			productF32x1Z, productF32x2Z, productF32x3Z, productF32x4Z, productF32x5Z, productF32x6Z,
			productF32x7Z, productF32x8Z, productF32x9Z, productF32x10Z, productF32x11Z, productF32x12Z,
		},
		F16: {
			productF16x1Z, productF16x2Z, productF16x3Z, productF16x4Z, productF16x5Z, productF16x6Z,
			productF16x7Z, productF16x8Z, productF16x9Z, productF16x10Z, productF16x11Z, productF16x12Z,
		},
		BF16: {
			productBF16x1Z, productBF16x2Z, productBF16x3Z, productBF16x4Z, productBF16x5Z, productBF16x6Z,
			productBF16x7Z, productBF16x8Z, productBF16x9Z, productBF16x10Z, productBF16x11Z, productBF16x12Z,
		},
	},
	bytes: byteKernels{
		scores:       []scoreFunc{scoresx1Z, scoresx2Z, scoresx3Z, scoresx4Z, scoresx5Z, scoresx6Z},
		values:       []valueFunc{valuesx1Z, valuesx2Z, valuesx3Z, valuesx4Z, valuesx5Z, valuesx6Z},
		roundQueries: roundQueriesZ, roundPowers: roundPowersZ,
	},
}
