package gemm

// kernels of a tier; the tier must be one of Tiers.
func (t Tier) kernels() *kernels { return tierKernels[t] }

var tierKernels = [tierCount]*kernels{
	Generic: genericKernels,
	AVX2:    withBatches(withWordTiles(withLowTiles(withWideRow(avx2Kernels(dotsY, [layoutCount]func(panel, w *byte, blocks int){}, peakLoop{peakMaddY, 12 * 64}))))),
	AVXVNNI: withGroupedTiles(withTiles(avx2Kernels(dotsV, unpacksV, peakLoop{peakDotY, 12 * 64}), 5,
		byteTiles(tilesU8V, tilesU8MinV, tilesS8V, tilesS8MinV), unpacksV)),
	AVX512:     avx512Kernels(false),
	AVX512BF16: avx512Kernels(true),
}

// avx2Kernels use 256-bit registers; the two AVX2 tiers differ in the integer dot product only.
func avx2Kernels(dots [layoutCount][]dotFunc, unpacks [layoutCount]func(panel, w *byte, blocks int), peak peakLoop) *kernels {
	return &kernels{
		rows: NR / 2, dot: dots, unpack: unpacks, unpacked: [...]codeLayout{layoutU8, layoutS8}, lanes: 8,
		scales: [scaleCount]scaleFunc{
			scaleF16: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleF16Y(dst, src, n, ahead, mul)
			},
			scaleF16Min: scaleF16MinY, scaleF16Zero: scaleF16ZeroY,
			scaleE8: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleE8Y(dst, src, n, ahead, mul)
			},
			scaleK4: scaleK4Y,
			scaleK6: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleK6Y(dst, src, n, ahead, mul)
			},
			scaleK3: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleK3Y(dst, src, n, ahead, mul)
			},
			scaleK2: scaleK2Y,
			scaleXS: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleXSY(dst, src, n, ahead, mul)
			},
		},
		panelF32: []panelFunc{panelF32x1Y, panelF32x2Y, panelF32x3Y, panelF32x4Y, panelF32x5Y, panelF32x6Y},
		fourRow: [elementPairs][]rowFunc{
			elementF32:  {rowsF32x4x1Y, rowsF32x4x2Y, rowsF32x4x3Y},
			elementF16:  {rowsF16x4x1Y, rowsF16x4x2Y, rowsF16x4x3Y},
			elementBF16: {rowsBF16x4x1Y, rowsBF16x4x2Y, rowsBF16x4x3Y},
		},
		rowTiles: 11,
		oneRow:   [elementPairs]rowFunc{elementF32: rowsF32x1x1Y, elementF16: rowsF16x1x1Y, elementBF16: rowsBF16x1x1Y},
		pack: [opCount]packFunc{
			opWords: packWordsY, opInt8: packInt8Y, opNibbles: packNibblesY, op2Bit: pack2BitY, op1Bit: pack1BitY,
			opMask: packsGeneric[opMask],
		},
		packF16: packF16, prefetchRows: prefetchRows,
		quantizeQ8: quantizeQ8, roundBytes: roundBytes, widenF16: widenF16, widenBF16: widenBF16,
		peaks: [...]peakLoop{Float32: {peakFMAY, 12 * 16}, Q8: peak}, read: peakReadY,
	}
}

// withWideRow says that the kernels of one row multiply NR rows of weights.
func withWideRow(k *kernels) *kernels {
	k.wideRow = true
	return k
}

// avx512Kernels use 512-bit registers.
func avx512Kernels(bf16 bool) *kernels {
	k := &kernels{
		rows: NR, dot: dotsZ, batch: batchesZ, batchGroups: batchGroups, storeBatch: storeBatchZ, prefetchOut: prefetchOut, unpack: unpacksZ, unpacked: [...]codeLayout{layoutU8, layoutS8}, lanes: 16,
		tile: byteTiles(tilesU8Z, tilesU8MinZ, tilesS8Z, tilesS8MinZ), unpackTile: unpacksZ, minTiles: 6,
		minGrouped: minGroupedRows, requantScales: requantScalesZ, requant: requantsZ, groupedTile: tilesGroupedZ, quantizeGrouped: quantizeGroupedZ,
		scales: [scaleCount]scaleFunc{
			scaleF16: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleF16Z(dst, src, n, ahead, mul)
			},
			scaleF16Min: scaleF16MinZ, scaleF16Zero: scaleF16ZeroZ,
			scaleE8: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleE8Z(dst, src, n, ahead, mul)
			},
			scaleK4: scaleK4Z,
			scaleK6: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleK6Z(dst, src, n, ahead, mul)
			},
			scaleK3: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleK3Z(dst, src, n, ahead, mul)
			},
			scaleK2: scaleK2Z,
			scaleXS: func(dst, _ *float32, src *byte, n int, ahead uintptr, mul, _ float32) {
				scaleXSZ(dst, src, n, ahead, mul)
			},
		},
		panelF32: []panelFunc{
			panelF32x1Z, panelF32x2Z, panelF32x3Z, panelF32x4Z, panelF32x5Z, panelF32x6Z,
			panelF32x7Z, panelF32x8Z, panelF32x9Z, panelF32x10Z, panelF32x11Z, panelF32x12Z,
		},
		fourRow: [elementPairs][]rowFunc{
			elementF32:  {rowsF32x4x1Z, rowsF32x4x2Z, rowsF32x4x3Z, rowsF32x4x4Z, rowsF32x4x5Z, rowsF32x4x6Z},
			elementF16:  {rowsF16x4x1Z, rowsF16x4x2Z, rowsF16x4x3Z, rowsF16x4x4Z, rowsF16x4x5Z, rowsF16x4x6Z},
			elementBF16: {rowsBF16x4x1Z, rowsBF16x4x2Z, rowsBF16x4x3Z, rowsBF16x4x4Z, rowsBF16x4x5Z, rowsBF16x4x6Z},
		},
		rowTiles: 11,
		oneRow:   [elementPairs]rowFunc{elementF32: rowsF32x1x1Z, elementF16: rowsF16x1x1Z, elementBF16: rowsBF16x1x1Z},
		pack: [opCount]packFunc{
			opWords: packWordsZ, opInt8: packInt8Z, opNibbles: packNibblesZ, op2Bit: pack2BitZ, op1Bit: pack1BitZ,
			opMask: packsGeneric[opMask],
		},
		packF16: packF16, prefetchRows: prefetchRows,
		quantizeQ8: quantizeQ8, roundBytes: roundBytes, widenF16: widenF16, widenBF16: widenBF16,
		peaks: [...]peakLoop{Float32: {peakFMAZ, 24 * 32}, Q8: {peakDotZ, 24 * 128}}, read: peakReadZ,
	}
	if bf16 {
		k.panelBF16 = []panelFunc{
			panelBF16x1Z, panelBF16x2Z, panelBF16x3Z, panelBF16x4Z, panelBF16x5Z, panelBF16x6Z,
			panelBF16x7Z, panelBF16x8Z, panelBF16x9Z, panelBF16x10Z, panelBF16x11Z, panelBF16x12Z,
		}
		k.narrowBF16 = narrowBF16
		k.peaks[BFloat16] = peakLoop{peakBF16Z, 24 * 64}
	}
	return k
}

var dotsZ = [layoutCount][]dotFunc{
	layoutU8: {dotU8x1Z, dotU8x2Z, dotU8x3Z, dotU8x4Z, dotU8x5Z, dotU8x6Z},
	layoutS8: {dotS8x1Z, dotS8x2Z, dotS8x3Z, dotS8x4Z, dotS8x5Z, dotS8x6Z},
	layoutU4: {dotU4x1Z, dotU4x2Z, dotU4x3Z, dotU4x4Z, dotU4x5Z, dotU4x6Z},
	layoutU5: {dotU5x1Z, dotU5x2Z, dotU5x3Z, dotU5x4Z, dotU5x5Z, dotU5x6Z},
	layoutU6: {dotU6x1Z, dotU6x2Z, dotU6x3Z, dotU6x4Z, dotU6x5Z, dotU6x6Z},
	layoutU3: {dotU3x1Z, dotU3x2Z, dotU3x3Z, dotU3x4Z, dotU3x5Z, dotU3x6Z},
	layoutU2: {dotU2x1Z, dotU2x2Z, dotU2x3Z, dotU2x4Z, dotU2x5Z, dotU2x6Z},
	layoutN4: {dotN4x1Z, dotN4x2Z, dotN4x3Z, dotN4x4Z, dotN4x5Z, dotN4x6Z},
	layoutM4: {dotM4x1Z, dotM4x2Z, dotM4x3Z, dotM4x4Z, dotM4x5Z, dotM4x6Z},
}

var batchesZ = [layoutCount]batchFunc{
	layoutU8: batchU8Z,
	layoutS8: batchS8Z,
	layoutU4: batchU4Z,
	layoutU5: batchU5Z,
	layoutU6: batchU6Z,
	layoutU3: batchU3Z,
	layoutU2: batchU2Z,
	layoutN4: batchN4Z,
	layoutM4: batchM4Z,
}

var unpacksZ = [layoutCount]func(panel, w *byte, blocks int){
	layoutU4: unpackU4Z,
	layoutU5: unpackU5Z,
	layoutU6: unpackU6Z,
	layoutU3: unpackU3Z,
	layoutU2: unpackU2Z,
	layoutN4: unpackN4Z,
	layoutM4: unpackM4Z,
}

var requantsZ = [layoutCount]func(panel, w *byte, ratios, offsets *float32, blocks int){
	layoutU4: requantU4Z,
	layoutU5: requantU5Z,
	layoutU6: requantU6Z,
	layoutU3: requantU3Z,
	layoutU2: requantU2Z,
	layoutN4: requantN4Z,
	layoutM4: requantM4Z,
}

var dotsV = [layoutCount][]dotFunc{
	layoutU8: {dotU8x1V, dotU8x2V, dotU8x3V},
	layoutS8: {dotS8x1V, dotS8x2V, dotS8x3V},
	layoutU4: {dotU4x1V, dotU4x2V, dotU4x3V},
	layoutU5: {dotU5x1V, dotU5x2V, dotU5x3V},
	layoutU6: {dotU6x1V, dotU6x2V, dotU6x3V},
	layoutU3: {dotU3x1V, dotU3x2V, dotU3x3V},
	layoutU2: {dotU2x1V, dotU2x2V, dotU2x3V},
	layoutN4: {dotN4x1V, dotN4x2V, dotN4x3V},
	layoutM4: {dotM4x1V, dotM4x2V, dotM4x3V},
}

var unpacksV = [layoutCount]func(panel, w *byte, blocks int){
	layoutU4: unpackU4V,
	layoutU5: unpackU5V,
	layoutU6: unpackU6V,
	layoutU3: unpackU3V,
	layoutU2: unpackU2V,
	layoutN4: unpackN4V,
	layoutM4: unpackM4V,
}

var dotsY = [layoutCount][]dotFunc{
	layoutU8: {dotU8x1Y, dotU8x2Y, dotU8x3Y, dotU8x4Y, dotU8x5Y, dotU8x6Y},
	layoutS8: {dotS8x1Y, dotS8x2Y, dotS8x3Y, dotS8x4Y, dotS8x5Y, dotS8x6Y},
	layoutU4: {dotU4x1Y, dotU4x2Y, dotU4x3Y, dotU4x4Y, dotU4x5Y, dotU4x6Y},
	layoutU5: {dotU5x1Y, dotU5x2Y, dotU5x3Y, dotU5x4Y, dotU5x5Y, dotU5x6Y},
	layoutU6: {dotU6x1Y, dotU6x2Y, dotU6x3Y, dotU6x4Y, dotU6x5Y, dotU6x6Y},
	layoutU3: {dotU3x1Y, dotU3x2Y, dotU3x3Y, dotU3x4Y, dotU3x5Y, dotU3x6Y},
	layoutU2: {dotU2x1Y, dotU2x2Y, dotU2x3Y, dotU2x4Y, dotU2x5Y, dotU2x6Y},
	layoutN4: {dotN4x1Y, dotN4x2Y, dotN4x3Y, dotN4x4Y, dotN4x5Y, dotN4x6Y},
	layoutM4: {dotM4x1Y, dotM4x2Y, dotM4x3Y, dotM4x4Y, dotM4x5Y, dotM4x6Y},
}
