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
func neonKernels(dots [formCount][]dotFunc, unpacks [formCount]func(panel, w *byte, blocks int), peak peakLoop) *kernels {
	return &kernels{
		rows: Granule, dot: dots, unpack: unpacks, unpacked: [...]formID{formI8, formH8}, lanes: 8,
		scales: [scaleCount]scaleFunc{
			scaleHalf: scaleHalfQ, scaleHalfMin: scaleHalfMinQ, scaleE8: scaleE8Q,
			scaleK4: scaleK4Q, scaleK6: scaleK6Q, scaleK3: scaleK3Q, scaleK2: scaleK2Q,
		},
		panel: []panelFunc{panelF32x1Q, panelF32x2Q, panelF32x3Q, panelF32x4Q, panelF32x5Q, panelF32x6Q},
		fourRow: [elementPairs][]rowFunc{
			elementF32:  {rowsF32x4x1Q, rowsF32x4x2Q, rowsF32x4x3Q},
			elementF16:  {rowsF16x4x1Q, rowsF16x4x2Q, rowsF16x4x3Q},
			elementBF16: {rowsBF16x4x1Q, rowsBF16x4x2Q, rowsBF16x4x3Q},
		},
		oneRow: [elementPairs]rowFunc{elementF32: rowsF32x1x1Q, elementF16: rowsF16x1x1Q, elementBF16: rowsBF16x1x1Q},
		pack: [pieceCount]packFunc{
			pieceWords: packWordsQ, pieceFlipped: packFlippedQ, piecePairs: packPairsQ, pieceFields: packFieldsQ, pieceBits: packBitsQ,
			pieceMask: packsGeneric[pieceMask],
		},
		packHalves:    packHalvesQ,
		quantizeLines: func(dst *byte, _ int, src *float32, n int) { quantizeLinesQ(dst, src, n) }, widenF16: widenF16Q, widenBF16: widenBF16Q,
		peaks: [...]peakLoop{Float32: {peakFMAQ, 24 * 8}, Lines: peak}, read: peakReadQ,
	}
}

// withBF16 adds the products of bf16.
func withBF16(k *kernels) *kernels {
	k.panelBF16 = []panelFunc{panelBF16x1Q, panelBF16x2Q, panelBF16x3Q, panelBF16x4Q, panelBF16x5Q, panelBF16x6Q}
	k.narrowBF16 = narrowBF16Q
	k.peaks[BFloat16] = peakLoop{peakBF16Q, 24 * 32}
	return k
}

var dotsQ = [formCount][]dotFunc{
	formU8: {dotU8x1Q, dotU8x2Q},
	formS8: {dotS8x1Q, dotS8x2Q},
	formU4: {dotU4x1Q, dotU4x2Q},
	formU5: {dotU5x1Q, dotU5x2Q},
	formU6: {dotU6x1Q, dotU6x2Q},
	formU3: {dotU3x1Q, dotU3x2Q},
	formU2: {dotU2x1Q, dotU2x2Q},
	formN4: {dotN4x1Q, dotN4x2Q},
	formM4: {dotM4x1Q, dotM4x2Q},
	formI8: {dotI8x1Q, dotI8x2Q, dotI8x3Q},
	formH8: {dotH8x1Q, dotH8x2Q, dotH8x3Q},
}

var dotsD = [formCount][]dotFunc{
	formU8: {dotU8x1D, dotU8x2D, dotU8x3D, dotU8x4D},
	formS8: {dotS8x1D, dotS8x2D, dotS8x3D, dotS8x4D},
	formU4: {dotU4x1D, dotU4x2D, dotU4x3D, dotU4x4D},
	formU5: {dotU5x1D, dotU5x2D, dotU5x3D, dotU5x4D},
	formU6: {dotU6x1D, dotU6x2D, dotU6x3D, dotU6x4D},
	formU3: {dotU3x1D, dotU3x2D, dotU3x3D, dotU3x4D},
	formU2: {dotU2x1D, dotU2x2D, dotU2x3D, dotU2x4D},
	formN4: {dotN4x1D, dotN4x2D, dotN4x3D, dotN4x4D},
	formM4: {dotM4x1D, dotM4x2D, dotM4x3D, dotM4x4D},
	formI8: {dotI8x1D, dotI8x2D, dotI8x3D, dotI8x4D, dotI8x5D, dotI8x6D},
	formH8: {dotH8x1D, dotH8x2D, dotH8x3D, dotH8x4D, dotH8x5D, dotH8x6D},
}

// dotsM are dotsD for packed codes.
var dotsM = func() [formCount][]dotFunc {
	dots := dotsD
	dots[formI8] = []dotFunc{dotI8x1M, dotI8x2M, dotI8x3M, dotI8x4M, dotI8x5M, dotI8x6M}
	dots[formH8] = []dotFunc{dotH8x1M, dotH8x2M, dotH8x3M, dotH8x4M, dotH8x5M, dotH8x6M}
	return dots
}()

var unpacksQ = [formCount]func(panel, w *byte, blocks int){
	formU8: unpackU8Q,
	formS8: unpackS8Q,
	formU4: unpackU4Q,
	formU5: unpackU5Q,
	formU6: unpackU6Q,
	formU3: unpackU3Q,
	formU2: unpackU2Q,
	formN4: unpackN4Q,
	formM4: unpackM4Q,
}

var unpacksM = [formCount]func(panel, w *byte, blocks int){
	formU8: unpackU8M,
	formS8: unpackS8M,
	formU4: unpackU4M,
	formU5: unpackU5M,
	formU6: unpackU6M,
	formU3: unpackU3M,
	formU2: unpackU2M,
	formN4: unpackN4M,
	formM4: unpackM4M,
}
