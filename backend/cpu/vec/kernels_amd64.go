package vec

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// kernelsOf a tier; the integer and bf16 variants of a width share these.
func kernelsOf(tier gemm.Tier) *kernels {
	switch tier {
	case gemm.Generic:
		return generic
	case gemm.AVX2, gemm.AVXVNNI:
		return avx2
	default:
		return avx512
	}
}

// avx2 is AVX2 with FMA and F16C.
var avx2 = &kernels{
	lanes: 8,
	dot:   dotY, sum: sumY, add: addY, addSquares: addSquaresY, scale: scaleY, center: centerY, affine: affineY,
	axpby: axpbyY, addProduct: addProductY, multiply: multiplyY,
	act:     [fnCount]func(y, x *float32, n int){siluY, geluTanhY, geluErfY, reluY, reluSquareY, logisticY, softplusY},
	actMul:  [fnCount]func(y, x, up *float32, n int){siluMulY, geluTanhMulY, geluErfMulY, reluMulY, reluSquareMulY, logisticMulY, softplusMulY},
	softcap: softcapY, exp: expY, rotateHalf: rotateHalfY, rotateAdjacent: rotateAdjacentY,
	narrowF16: narrowF16Y, narrowBF16: narrowBF16Y, widenF16: widenF16Y, widenBF16: widenBF16Y,
	deltaWidth: 16, deltaWide: deltaWideY, deltaMost: 8, delta: deltaNarrowY, stateSteps: stateStepsY, scanSteps: scanStepsY,
	dotBF16: dotBF16Y, addPanels: addPanelsY,
	expand: &expansions{
		fp8: expandFP8Y, fp8Block: expandFP8BlockY, int8: expandInt8Y, uint8: expandUint8Y,
		codebook: expandCodebookY, nvfp4: expandNVFP4Y, sparse: expandBF16Y, sparseF16: expandF16Y,
		dotFP8: dotFP8Y, dotInt8: dotInt8Y, dotFP8Block: dotFP8BlockY, dotUint8: dotUint8Y,
		words: &wordKernels{2, wordsCodebook, wordsNVFP4, dotWordsCodebookY, dotWordsNVFP4Y},
		bytes: &byteKernels{bytesCodebook, bytesNVFP4, 2, 28},
	},
}

// avx512 is AVX-512.
var avx512 = &kernels{
	lanes: 16,
	dot:   dotZ, sum: sumZ, add: addZ, addSquares: addSquaresZ, scale: scaleZ, center: centerZ, affine: affineZ,
	axpby: axpbyZ, addProduct: addProductZ, multiply: multiplyZ,
	act:     [fnCount]func(y, x *float32, n int){siluZ, geluTanhZ, geluErfZ, reluZ, reluSquareZ, logisticZ, softplusZ},
	actMul:  [fnCount]func(y, x, up *float32, n int){siluMulZ, geluTanhMulZ, geluErfMulZ, reluMulZ, reluSquareMulZ, logisticMulZ, softplusMulZ},
	softcap: softcapZ, exp: expZ, rotateHalf: rotateHalfZ, rotateAdjacent: rotateAdjacentZ,
	narrowF16: narrowF16Z, narrowBF16: narrowBF16Z, widenF16: widenF16Z, widenBF16: widenBF16Z,
	deltaWidth: 64, deltaWide: deltaWideZ, deltaMost: 16, delta: deltaNarrowZ, stateSteps: stateStepsZ, scanSteps: scanStepsZ,
	dotBF16: dotBF16Z, addPanels: addPanelsZ,
	expand: &expansions{
		fp8: expandFP8Z, fp8Block: expandFP8BlockZ, int8: expandInt8Z, uint8: expandUint8Z,
		codebook: expandCodebookZ, nvfp4: expandNVFP4Z, sparse: expandBF16Z, sparseF16: expandF16Z,
		dotFP8: dotFP8Z, dotInt8: dotInt8Z, dotFP8Block: dotFP8BlockZ, dotUint8: dotUint8Z,
		words: &wordKernels{4, wordsCodebook, wordsNVFP4, dotWordsCodebookZ, dotWordsNVFP4Z},
		bytes: &byteKernels{bytesCodebook, bytesNVFP4, 3, 16},
	},
}

// Pause waits between two loads of a spin loop: n times PAUSE, 15 to 50 ns each.
func Pause(n int) { pause(n) }
