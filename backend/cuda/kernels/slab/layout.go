package slab

import "github.com/ridge-llm/ridge/quant"

// A weight is packed in slabs of 8 tiles of 16 rows, a slab in columns of units, [columns / 128, even][8 tiles], a unit in two halves of 8 rows.
// A half is one contiguous piece, whose codes come in the order in which the lanes of a warp load them, 16 or 8 bytes each:
//
//	four    [32 lanes][4 blocks of 32 columns][4]u8  codes of four bits
//	        [8 rows][4]f16                           scales; Q4_1 and Q4_K: [8 rows][2][4]f16, scales and then middles, the numbers of code 8; INT4: [8 rows]f16
//	eight   [2][32 lanes][2 blocks][8]u8             codes of eight bits, each + 128
//	        [8 rows][4]f16                           scales
//	six     [32 lanes][4 blocks][4]u8                the low four bits of codes of six
//	        [32 lanes][2][4]u8                       the high two, of two blocks each
//	        [8 rows][8]f16                           scales of 16 columns
//
// Lane 4g + t holds row g and, of each block, columns 8i + 2t + e, where i is 0 to 3 and e is 0 or 1: what the tensor cores' mma wants of
// it. Eight codes of four bits lie in a word with that column at bit 4i + 16e; of eight bits, in byte 2i + e; two high bits of a code
// in byte i/2 + 2e, at bit 4b + 2(i%2), b being the block's place of two. Rows and columns that fill up a unit are zeros. MXFP4's scales are bf16.
const (
	tileRows  = 16
	halfRows  = tileRows / 2
	slabTiles = 8
	slabRows  = slabTiles * tileRows
	columns   = 128
)

func tiles(rows int) int     { return (rows + tileRows - 1) / tileRows }
func tileUnits(cols int) int { return (cols + 2*columns - 1) / (2 * columns) * 2 } // even, for wide.h

// layout says how a format's halves look and how its file's blocks are read.
type layout struct {
	kernels string // the kernels' name
	bytes   int    // of a half
	scales  int    // where they start
	each    int    // bytes of a row's scales, and middles
	subs    int    // scales of a block
	read    func(to *line, row []byte, unit int)
	codes   func(from *line, half []byte, g int)
}

var layouts = map[quant.Format]layout{
	quant.Q4_0:  {"slab_q4_0", 576, 512, 8, 1, readQ4_0, (*line).putFour},
	quant.Q4_1:  {"slab_q4_affine", 640, 512, 16, 1, readQ4_1, (*line).putFour},
	quant.Q4_K:  {"slab_q4_affine", 640, 512, 16, 1, readQ4_K, (*line).putFour},
	quant.INT4:  {"slab_int4", 528, 512, 2, 1, readINT4, (*line).putFour},
	quant.MXFP4: {"slab_mxfp4", 576, 512, 8, 1, readMXFP4, (*line).putFour},
	quant.Q8_0:  {"slab_q8_0", 1088, 1024, 8, 1, readQ8_0, (*line).putEight},
	quant.Q6_K:  {"slab_q6_k", 896, 768, 16, 2, readQ6_K, (*line).putSix},
}

// Has reports whether there are kernels for a format.
func Has(f quant.Format) bool { return layouts[f].bytes > 0 }

func unitBytes(f quant.Format) int { return 2 * layouts[f].bytes }

// Slabs is how many slabs a weight has, and the bytes of each.
func Slabs(t quant.Tensor) (n, bytes int) {
	return (t.Rows + slabRows - 1) / slabRows, tileUnits(t.Cols) * slabTiles * unitBytes(t.Format)
}

// Pack writes slabs from to to-1 of a weight in a format that Has. dst is overwritten.
func Pack(dst []byte, t quant.Tensor, from, to int) {
	_, bytes := Slabs(t)
	clear(dst[:(to-from)*bytes])
	l := layouts[t.Format]
	var one line
	for row := from * slabRows; row < min(to*slabRows, t.Rows); row++ {
		slab := dst[(row/slabRows-from)*bytes:][:bytes]
		for unit := range tileUnits(t.Cols) {
			one = line{}
			l.read(&one, t.Row(row), unit)
			half, g := slab[(unit*slabTiles*2+row%slabRows/halfRows)*l.bytes:][:l.bytes], row%halfRows
			l.codes(&one, half, g)
			for i := range l.each / 2 {
				order.PutUint16(half[l.scales+g*l.each+2*i:], one.scales[i])
			}
		}
	}
}
