package gemm

// withTiles adds tile kernels, which are used for so many tiles or more.
func withTiles(k *kernels, least int, tiles [layoutCount][2]tileFunc, unpacks [layoutCount]func(panel, w *byte, blocks int)) *kernels {
	k.tile, k.unpackTile, k.minTiles = tiles, unpacks, least
	return k
}

// byteTiles are the tile kernels of a tier that unpacks all codes to bytes: with scales for 32 weights and for 16.
func byteTiles(u8, u8Min, s8, s8Min tileFunc) (tiles [layoutCount][2]tileFunc) {
	for f := range layoutCount {
		tiles[f] = [2]tileFunc{u8, u8Min}
		if f.sub16() {
			tiles[f] = [2]tileFunc{s8, s8Min}
		}
	}
	return tiles
}

// tilesY multiply codes of up to six bits right-aligned (see tools/asm/gemm's lowLayout); those of eight bits are multiplied as words.
var tilesY = [layoutCount][2]tileFunc{
	layoutU4: {tilesL4Y, tilesL4MinY},
	layoutU5: {tilesL5Y, tilesL5MinY},
	layoutU6: {tilesL6Y},
	layoutU3: {tilesL3Y},
	layoutU2: {1: tilesL2MinY},
}

// Codes that are looked up are unpacked to bytes, for words.
var unpackTilesY = [layoutCount]func(panel, w *byte, blocks int){
	layoutN4: unpackN4Y,
	layoutM4: unpackM4Y,
}

// withLowTiles adds those that multiply low codes, with floats or, in grouped matmuls, by whole scales.
func withLowTiles(k *kernels) *kernels {
	k = withTiles(k, minTilesY, tilesY, unpackTilesY)
	k.unpackHalf = [layoutCount]func(panel, w *byte, blocks int){
		layoutU4: unpackL4Y, layoutU5: unpackL5Y, layoutU6: unpackL6Y, layoutU3: unpackL3Y, layoutU2: unpackL2Y,
	}
	k.minGrouped, k.wholeScales, k.wholeScalesMin, k.quantizeGrouped = minGroupedRows, wholeScalesY, wholeScalesMinY, quantizeGroupedY
	k.scaledTile = [layoutCount]scaledKernels{
		layoutU4: {tilesScaledL4x2Y, tilesScaledL4x4Y, tilesScaledL4x6Y},
		layoutU5: {tilesScaledL5x2Y, tilesScaledL5x4Y, tilesScaledL5x6Y},
		layoutU6: {tilesScaledL6x2Y, tilesScaledL6x4Y, tilesScaledL6x6Y},
		layoutU3: {tilesScaledL3x2Y, tilesScaledL3x4Y, tilesScaledL3x6Y},
		layoutU2: {tilesScaledL2x2Y, tilesScaledL2x4Y, tilesScaledL2x6Y},
	}
	k.factor = [layoutCount]float32{layoutU4: 16, layoutU5: 8, layoutU6: 4, layoutU3: 32, layoutU2: 64}
	k.far = [layoutCount]float32{layoutU4: 128, layoutU2: 128}
	return k
}

// minTilesY is the number of tiles from which on AVX2's tile kernels are used: fewer rows are a batch.
const minTilesY = 6

// withBatches adds the batch kernels of AVX2, which take any number of rows two at a time.
func withBatches(k *kernels) *kernels {
	k.batch = [layoutCount]batchFunc{
		layoutU8: batchU8Y, layoutS8: batchS8Y, layoutU4: batchU4Y, layoutU5: batchU5Y, layoutU6: batchU6Y, layoutU3: batchU3Y, layoutU2: batchU2Y, layoutN4: batchN4Y, layoutM4: batchM4Y,
	}
	k.batchGroups = func(rows int) uint64 { return uint64(rows) }
	k.storeBatch, k.prefetchOut = storeBatchY, prefetchOut
	return k
}

// withWordTiles adds those that multiply bytes as words.
func withWordTiles(k *kernels) *kernels {
	k.unpackWords, k.widenBlocks = unpackWordsY, widenBlocksY
	k.wordTile = [layoutCount]wordsFunc{layoutU8: tilesWordsU8Y, layoutS8: tilesWordsS8Y, layoutN4: tilesWordsU8Y, layoutM4: tilesWordsU8Y}
	return k
}

// withGroupedTiles adds those of grouped matmuls with AVX-VNNI. Its dot kernels take three rows, and three whole tiles are faster already.
// A tile's kernel multiplies mr rows, so these have to be nearly full: 19 to 22, 25 to 28 and 31 to 33 rows of Q4_0 are as fast or faster without groups.
func withGroupedTiles(k *kernels) *kernels {
	k.fill = 15
	k.minGrouped, k.requantScales, k.groupedTile, k.quantizeGrouped = 3*mr, requantScalesV, tilesGroupedV, quantizeGroupedV
	k.requant = [layoutCount]func(panel, w *byte, ratios, offsets *float32, blocks int){
		layoutU4: requantU4V, layoutU5: requantU5V, layoutU6: requantU6V, layoutU3: requantU3V, layoutU2: requantU2V, layoutN4: requantN4V, layoutM4: requantM4V,
	}
	return k
}
