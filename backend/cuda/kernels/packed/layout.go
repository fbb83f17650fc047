package packed

import "github.com/ridge-llm/ridge/quant"

// A weight is packed in tiles of 16 rows, a tile in units of 128 columns. A unit is what a warp reads with three loads of 16 bytes a lane:
//
//	codes   [2 halves of 8 rows][32 lanes][16 bytes]
//	scales  [8][2][4]f16  of rows g and g + 8, the four blocks of 32 columns
//
// Lane 4g + t holds rows g and g + 8, columns 8t to 8t + 7 of each block. Eight codes of four bits lie in a word with column 2i at
// bit 4i and column 2i + 1 at bit 4i + 16. Rows and columns that fill up a unit are zeros. Other formats are packed in slabs; see kernels/slab.
const (
	tileRows  = 16
	columns   = 128
	block     = 32
	unitBytes = 1024 + 128
)

func tiles(rows int) int     { return (rows + tileRows - 1) / tileRows }
func tileUnits(cols int) int { return (cols + columns - 1) / columns }

// Has reports whether there are kernels for a format.
func Has(f quant.Format) bool { return f == quant.Q4_0 }

// Tiles is how many tiles a weight has, and the bytes of each.
func Tiles(t quant.Tensor) (n, bytes int) {
	return tiles(t.Rows), tileUnits(t.Cols) * unitBytes
}

// Pack writes tiles from to to-1 of a weight in a format that Has.
func Pack(dst []byte, t quant.Tensor, from, to int) {
	_, bytes := Tiles(t)
	clear(dst[:(to-from)*bytes])
	for row := from * tileRows; row < min(to*tileRows, t.Rows); row++ {
		tile := dst[(row/tileRows-from)*bytes:][:bytes]
		src, size := t.Row(row), t.Format.BlockBytes()
		for b := range t.Cols / block {
			unit := tile[b/4*unitBytes:][:unitBytes]
			packBlock(unit, row%tileRows, b%4, src[b*size:(b+1)*size])
		}
	}
}

// packBlock puts a block, its scale (f16) and codes as in the file, in its row and place of a unit.
func packBlock(unit []byte, row, place int, src []byte) {
	half, g := row/8, row%8
	copy(unit[1024+g*16+half*8+place*2:], src[:2])
	src = src[2:]
	for t := range 4 {
		at := unit[half*512+(4*g+t)*16+place*4:]
		for i := range 8 {
			column := 8*t + i
			code := src[column%16] >> (column / 16 * 4) & 15
			nibble := i/2 + i%2*4
			at[nibble/2] |= code << (nibble % 2 * 4)
		}
	}
}
