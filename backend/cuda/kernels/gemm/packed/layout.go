package packed

import "github.com/ridge-llm/ridge/quant"

// A weight is packed in panels of 8 tiles of 16 rows, a panel in columns of units, [columns / 128, even][8 tiles], a unit in two halves of 8 rows.
// A half is one contiguous piece, whose codes come in the order in which the lanes of a warp load them, 16 or 8 bytes each:
//
//	U4      [32 lanes][4 blocks of 32 columns][4]u8  codes of four bits
//	        [8 rows][4]f16                           scales; Q4_1 and Q4_K: [8 rows][2][4]f16, scales and then middles, the numbers of code 8; INT4: [8 rows]f16
//	U8      [2][32 lanes][2 blocks][8]u8             codes of eight bits, each + 128
//	        [8 rows][4]f16                           scales
//	U6      [32 lanes][4 blocks][4]u8                the low four bits of codes of six
//	        [32 lanes][2][4]u8                       the high two, of two blocks each
//	        [8 rows][8]f16                           scales of 16 columns
//	2:4     [2][32 lanes][2 blocks][4]bf16           the numbers stored; lane 4g + t has those of columns 4t to 4t + 3 of each 16
//	        [8 rows][2][4 blocks][4]u4               their places in fours of columns, of each block's first 16 columns and its last: the first's in the low two bits
//
// Lane 4g + t holds row g and, of each block, columns 8i + 2t + e, where i is 0 to 3 and e is 0 or 1: what the tensor cores' mma wants of
// it. Eight codes of four bits lie in a word with that column at bit 4i + 16e; of eight bits, in byte 2i + e; two high bits of a code
// in byte i/2 + 2e, at bit 4b + 2(i%2), b being the block's place of two. Rows and columns that fill up a unit are zeros. MXFP4's scales are bf16. NVFP4_ROW
// is U4 with [8 rows][8]f16 scales, of 16 columns, NF4 and FP4 are U4, and FP8_BLOCK is U8, with [8 rows]f16 scales, of all columns. Formats whose codes are indices into
// grids, or digits in other bases, are taken apart to U8, with [8 rows][8]f16 scales where these are for 16 columns.
const (
	tileRows   = 16
	halfRows   = tileRows / 2
	panelTiles = 8
	panelRows  = panelTiles * tileRows
	columns    = 128
)

func tiles(rows int) int     { return (rows + tileRows - 1) / tileRows }
func tileUnits(cols int) int { return (cols + 2*columns - 1) / (2 * columns) * 2 } // even, for gemm_sm90.h

// layout says how a format's halves look and how they are made of its file's rows.
type layout struct {
	module string // of its kernels
	bytes  int    // of a half
	scales int    // where they start
	each   int    // bytes of a row's scales, and middles
	subs   int    // scales of a block
	floats bool   // codes are no whole numbers of eight bits, and there are no kernels of gemv_int8.h
	pack   func(to *line, row []byte, unit int)
	sparse bool // two of each four numbers are stored, and scales are their places
}

var layouts = withGrouped(map[quant.Format]layout{
	quant.Q4_0:  {"gemm/packed/q4_0", 576, 512, 8, 1, false, packQ4_0, false},
	quant.Q4_1:  {"gemm/packed/q4_affine", 640, 512, 16, 1, false, packQ4_1, false},
	quant.Q4_K:  {"gemm/packed/q4_affine", 640, 512, 16, 1, false, packQ4_K, false},
	quant.INT4:  {"gemm/packed/int4", 528, 512, 2, 1, false, packINT4, false},
	quant.MXFP4: {"gemm/packed/mxfp4", 576, 512, 8, 1, false, packMXFP4, false},
	quant.Q8_0:  {"gemm/packed/q8_0", 1088, 1024, 8, 1, false, packQ8_0, false},
	quant.Q6_K:  {"gemm/packed/q6_k", 896, 768, 16, 2, false, packQ6_K, false},

	quant.UINT4:     {"gemm/packed/q4_affine", 640, 512, 16, 1, false, packUINT4, false},
	quant.NVFP4_ROW: {"gemm/packed/nvfp4", 640, 512, 16, 2, false, packNVFP4Row, false},
	quant.FP8_BLOCK: {"gemm/packed/fp8_block", 1040, 1024, 2, 1, true, packFP8Block, false},
	quant.NF4:       {"gemm/packed/nf4", 576, 512, 8, 1, true, packBNB4, false},
	quant.FP4:       {"gemm/packed/fp4", 576, 512, 8, 1, true, packBNB4, false},

	quant.BF16_2_4: {"gemm/packed/sparse24", 1152, 1024, 16, 1, true, packSparse24, true},
	quant.F16_2_4:  {"gemm/packed/sparse24", 1152, 1024, 16, 1, true, packSparse24, true},
})

// withGrouped adds the formats whose blocks are taken apart to bytes, by their descriptors.
func withGrouped(all map[quant.Format]layout) map[quant.Format]layout {
	for _, f := range quant.GroupedFormats() {
		all[f] = layout{"gemm/packed/q8_0", 1088, 1024, 8, 1, false, packCodes, false}
		if f.Descriptor().CodeGroup == 16 {
			all[f] = layout{"gemm/packed/u8_by16", 1152, 1024, 16, 2, false, packCodes, false}
		}
	}
	return all
}

// Has reports whether there are kernels for a format.
func Has(f quant.Format) bool { return layouts[f].bytes > 0 }

func unitBytes(f quant.Format) int { return 2 * layouts[f].bytes }

// Panels is how many panels a weight has, and the bytes of each.
func Panels(t quant.Tensor) (n, bytes int) {
	return (t.Rows + panelRows - 1) / panelRows, tileUnits(t.Cols) * panelTiles * unitBytes(t.Format)
}

// Pack writes panels from to to-1 of a weight in a format that Has. dst is overwritten. It goes along eight rows at a time, so that it reads in order
// and writes whole pieces.
func Pack(dst []byte, t quant.Tensor, from, to int) {
	const halves = panelRows / halfRows
	l, units, row := layouts[t.Format], tileUnits(t.Cols), int(t.Format.RowBytes(t.Cols))
	var one line
	for h := from * halves; h < to*halves; h++ {
		first := dst[((h/halves-from)*units*halves+h%halves)*l.bytes:]
		rows := t.Data[min(h*halfRows, t.Rows)*row : min((h+1)*halfRows, t.Rows)*row]
		for unit := range units {
			half := first[unit*halves*l.bytes:][:l.bytes]
			clear(half)
			if l.sparse {
				fill(half[l.scales:], noPlaces)
			}
			for g := range len(rows) / row {
				one = line{half, g, half[l.scales+g*l.each:][:l.each], t.Format}
				l.pack(&one, rows[g*row:(g+1)*row], unit)
			}
		}
	}
}
