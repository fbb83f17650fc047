package vec

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
	lanes: 8,
	dot:   dotQ, sum: sumQ, add: addQ, addSquares: addSquaresQ, scale: scaleQ, center: centerQ, affine: affineQ,
	axpby: axpbyQ, addProduct: addProductQ, multiply: multiplyQ,
	act:     [fnCount]func(y, x *float32, n int){siluQ, geluTanhQ, geluErfQ, reluQ, reluSquareQ, logisticQ, softplusQ},
	actMul:  [fnCount]func(y, x, up *float32, n int){siluMulQ, geluTanhMulQ, geluErfMulQ, reluMulQ, reluSquareMulQ, logisticMulQ, softplusMulQ},
	softcap: softcapQ, exp: expQ, rotateHalf: rotateHalfQ, rotateAdjacent: rotateAdjacentQ,
	narrowF16: narrowF16Q, narrowBF16: narrowBF16Q, widenF16: widenF16Q, widenBF16: widenBF16Q,
	deltaWidth: 16, deltaWide: deltaWideQ, deltaMost: 1, delta: deltaNarrowQ, stateSteps: stateStepsQ, scanSteps: scanStepsQ,
	dotBF16: dotBF16Q, addPanels: addPanelsQ,
	expand: &expansions{
		fp8: expandFP8Q, fp8Block: expandFP8BlockQ, int8: expandInt8Q, uint8: expandUint8Q,
		codebook: expandCodebookQ, nvfp4: expandNVFP4Q, sparse: expandBF16Q, sparseF16: expandF16Q,
	},
}

// Pause waits between two loads of a spin loop: n times ISB, 10 to 20 ns each.
func Pause(n int) { pause(n) }
