package gemm

// kernels of a tier; the tier must be one of Tiers.
func (t Tier) kernels() *kernels { return tierKernels[t] }

var tierKernels = [tierCount]*kernels{
	Generic: genericKernels,
	NEON:    neonKernels(dotsQ, unpacksQ, peakLoop{peakMulQ, 24 * 16}),
	DotProd: neonKernels(dotsD, unpacksQ, peakLoop{peakDotQ, 24 * 32}),
	I8MM:    neonKernels(dotsM, unpacksM, peakLoop{peakMatMulQ, 24 * 64}),
	BF16:    withBF16(neonKernels(dotsM, unpacksM, peakLoop{peakMatMulQ, 24 * 64})),
}

// neonKernels differ in the integer products. Packed codes are multiplied by SDOT even where there is SMMLA, see
// tools/asm/gemm/neon.
func neonKernels(dots [layoutCount][]dotFunc, unpacks [layoutCount]func(panel, w *byte, blocks int), peak peakLoop) *kernels {
	return &kernels{
		rows: NR, dot: dots, unpack: unpacks, unpacked: [...]codeLayout{layoutI8, layoutH8}, lanes: 8,
		scales: [scaleCount]scaleFunc{
			scaleF16: scaleF16Q, scaleF16Min: scaleF16MinQ, scaleF16Zero: scaleF16ZeroQ, scaleE8: scaleE8Q,
			scaleK4: scaleK4Q, scaleK6: scaleK6Q, scaleK3: scaleK3Q, scaleK2: scaleK2Q, scaleXS: scaleXSQ,
		},
		panelF32: []panelFunc{panelF32x1Q, panelF32x2Q, panelF32x3Q, panelF32x4Q, panelF32x5Q, panelF32x6Q},
		fourRow: [elementPairs][]rowFunc{
			elementF32:  {rowsF32x4x1Q, rowsF32x4x2Q, rowsF32x4x3Q},
			elementF16:  {rowsF16x4x1Q, rowsF16x4x2Q, rowsF16x4x3Q},
			elementBF16: {rowsBF16x4x1Q, rowsBF16x4x2Q, rowsBF16x4x3Q},
		},
		rowTiles: 3,
		oneRow:   [elementPairs]rowFunc{elementF32: rowsF32x1x1Q, elementF16: rowsF16x1x1Q, elementBF16: rowsBF16x1x1Q},
		pack: [opCount]packFunc{
			opWords: packWordsQ, opInt8: packInt8Q, opNibbles: packNibblesQ, op2Bit: pack2BitQ, op1Bit: pack1BitQ,
			opMask: packsGeneric[opMask],
		},
		packF16:    packF16Q,
		quantizeQ8: func(dst *byte, _ int, src *float32, n int) { quantizeQ8Q(dst, src, n) }, widenF16: widenF16Q, widenBF16: widenBF16Q,
		peaks: [...]peakLoop{Float32: {peakFMAQ, 24 * 8}, Q8: peak}, read: peakReadQ,
	}
}

// withBF16 adds the products of bf16.
func withBF16(k *kernels) *kernels {
	k.panelBF16 = []panelFunc{panelBF16x1Q, panelBF16x2Q, panelBF16x3Q, panelBF16x4Q, panelBF16x5Q, panelBF16x6Q}
	k.narrowBF16 = narrowBF16Q
	k.peaks[BFloat16] = peakLoop{peakBF16Q, 24 * 32}
	return k
}

var dotsQ = [layoutCount][]dotFunc{
	layoutU8: {dotU8x1Q, dotU8x2Q},
	layoutS8: {dotS8x1Q, dotS8x2Q},
	layoutU4: {dotU4x1Q, dotU4x2Q},
	layoutU5: {dotU5x1Q, dotU5x2Q},
	layoutU6: {dotU6x1Q, dotU6x2Q},
	layoutU3: {dotU3x1Q, dotU3x2Q},
	layoutU2: {dotU2x1Q, dotU2x2Q},
	layoutN4: {dotN4x1Q, dotN4x2Q},
	layoutM4: {dotM4x1Q, dotM4x2Q},
	layoutI8: {dotI8x1Q, dotI8x2Q, dotI8x3Q},
	layoutH8: {dotH8x1Q, dotH8x2Q, dotH8x3Q},
}

var dotsD = [layoutCount][]dotFunc{
	layoutU8: {dotU8x1D, dotU8x2D, dotU8x3D, dotU8x4D},
	layoutS8: {dotS8x1D, dotS8x2D, dotS8x3D, dotS8x4D},
	layoutU4: {dotU4x1D, dotU4x2D, dotU4x3D, dotU4x4D},
	layoutU5: {dotU5x1D, dotU5x2D, dotU5x3D, dotU5x4D},
	layoutU6: {dotU6x1D, dotU6x2D, dotU6x3D, dotU6x4D},
	layoutU3: {dotU3x1D, dotU3x2D, dotU3x3D, dotU3x4D},
	layoutU2: {dotU2x1D, dotU2x2D, dotU2x3D, dotU2x4D},
	layoutN4: {dotN4x1D, dotN4x2D, dotN4x3D, dotN4x4D},
	layoutM4: {dotM4x1D, dotM4x2D, dotM4x3D, dotM4x4D},
	layoutI8: {dotI8x1D, dotI8x2D, dotI8x3D, dotI8x4D, dotI8x5D, dotI8x6D},
	layoutH8: {dotH8x1D, dotH8x2D, dotH8x3D, dotH8x4D, dotH8x5D, dotH8x6D},
}

// dotsM are dotsD for packed codes.
var dotsM = func() [layoutCount][]dotFunc {
	dots := dotsD
	dots[layoutI8] = []dotFunc{dotI8x1M, dotI8x2M, dotI8x3M, dotI8x4M, dotI8x5M, dotI8x6M}
	dots[layoutH8] = []dotFunc{dotH8x1M, dotH8x2M, dotH8x3M, dotH8x4M, dotH8x5M, dotH8x6M}
	return dots
}()

var unpacksQ = [layoutCount]func(panel, w *byte, blocks int){
	layoutU8: unpackU8Q,
	layoutS8: unpackS8Q,
	layoutU4: unpackU4Q,
	layoutU5: unpackU5Q,
	layoutU6: unpackU6Q,
	layoutU3: unpackU3Q,
	layoutU2: unpackU2Q,
	layoutN4: unpackN4Q,
	layoutM4: unpackM4Q,
}

var unpacksM = [layoutCount]func(panel, w *byte, blocks int){
	layoutU8: unpackU8M,
	layoutS8: unpackS8M,
	layoutU4: unpackU4M,
	layoutU5: unpackU5M,
	layoutU6: unpackU6M,
	layoutU3: unpackU3M,
	layoutU2: unpackU2M,
	layoutN4: unpackN4M,
	layoutM4: unpackM4M,
}
