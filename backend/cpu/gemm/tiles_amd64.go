package gemm

// withTiles adds tile kernels, which are used for so many tiles or more.
func withTiles(k *kernels, least int, tiles [formCount][2]tileFunc, unpacks [formCount]func(panel, w *byte, blocks int)) *kernels {
	k.tile, k.unpackTile, k.leastTiles = tiles, unpacks, least
	return k
}

// byteTiles are the tiles of a tier that unpacks all codes to bytes: with scales for 32 weights and for 16.
func byteTiles(u8, u8Min, s8, s8Min tileFunc) (tiles [formCount][2]tileFunc) {
	for f := range formCount {
		tiles[f] = [2]tileFunc{u8, u8Min}
		if f.sub16() {
			tiles[f] = [2]tileFunc{s8, s8Min}
		}
	}
	return tiles
}

// tilesY multiply codes of few bits as they are, and only those of eight by way of their signs.
var tilesY = [formCount][2]tileFunc{
	formU8: {tilesU8Y},
	formN4: {tilesU8Y},
	formM4: {tilesU8Y},
	formU4: {tilesL4Y, tilesL4MinY},
	formU5: {tilesL5Y, tilesL5MinY},
	formU6: {tilesL6Y},
	formU3: {tilesL3Y},
	formU2: {1: tilesL2MinY},
}

var unpackTilesY = [formCount]func(panel, w *byte, blocks int){
	formN4: unpackN4Y,
	formM4: unpackM4Y,
	formU4: unpackL4Y,
	formU5: unpackL5Y,
	formU6: unpackL6Y,
	formU3: unpackL3Y,
	formU2: unpackL2Y,
}
