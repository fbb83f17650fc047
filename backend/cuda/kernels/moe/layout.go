package moe

import (
	"encoding/binary"

	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/quant"
)

// An expert's matrix lies on the device in panels, as kernels/gemm/packed has them: columns by columns, of each 16 pieces of eight rows. Formats that
// gemm/packed does not have are kept in BF16, where a piece has 64 columns (of others 128):
//
//	[8][8 rows][8 columns]bf16
//
// as Hopper's tensor cores take it from shared memory. Gate and up are one matrix, interleaved by eight rows.
const (
	pieceBytes  = 1024 // in BF16
	pieceRows   = 8
	pieceCols   = 64
	tileRows    = 16
	panelTiles  = 8
	panelRows   = panelTiles * tileRows
	panelPieces = panelRows / pieceRows
	columns     = 128
)

func tiles(rows int) int { return (rows + tileRows - 1) / tileRows }
func units(cols int) int { return (cols + 2*columns - 1) / (2 * columns) * 2 }

// module is what is known of the kernels of a format.
type module struct {
	name   string
	scales int // of 32 numbers
}

// modules are the modules of the kernels by the format in which experts are stored.
var modules = map[quant.Format]module{
	quant.BF16:  {"moe/experts_bf16", 1},
	quant.Q4_0:  {"moe/experts_q4_0", 1},
	quant.Q4_1:  {"moe/experts_q4_affine", 1},
	quant.Q4_K:  {"moe/experts_q4_affine", 1},
	quant.Q6_K:  {"moe/experts_q6_k", 2},
	quant.Q8_0:  {"moe/experts_q8_0", 1},
	quant.MXFP4: {"moe/experts_mxfp4", 1},
	quant.UINT4: {"moe/experts_q4_affine", 1},
}

// StoredFormat is the format in which experts of a file's format are stored: their own, or BF16.
func StoredFormat(f quant.Format) quant.Format {
	if modules[f].name != "" {
		return f
	}
	return quant.BF16
}

// Panels is how many panels a matrix has, and the bytes of each.
func Panels(t quant.Tensor) (n, bytes int) {
	t.Format = StoredFormat(t.Format)
	if t.Format == quant.BF16 {
		return (t.Rows + panelRows - 1) / panelRows, units(t.Cols) * columns * panelRows * 2
	}
	return packed.Panels(t)
}

// Bytes is the size of a matrix in a stored format.
func Bytes(f quant.Format, rows, cols int) int64 {
	n, bytes := Panels(quant.Tensor{Format: f, Rows: rows, Cols: cols})
	return int64(n) * int64(bytes)
}

// Pack writes panels from to to-1 of a matrix of any format, in a stored format: its own or BF16. dst is overwritten.
func Pack(dst []byte, t quant.Tensor, format quant.Format, from, to int) {
	if format == quant.BF16 {
		packBF16(dst, t, from, to)
	} else {
		packed.Pack(dst, t, from, to)
	}
}

// PackInterleaved is Pack of a gate and an up matrix of one shape as one of twice as many rows. dst is overwritten.
func PackInterleaved(dst []byte, gate, up quant.Tensor, format quant.Format, from, to int) {
	like := gate
	like.Format = format
	_, bytes := Panels(like)
	piece := pieceBytes
	if format != quant.BF16 {
		piece = bytes / (units(gate.Cols) * panelPieces)
	}
	both := make([]byte, 2*bytes) // a panel of each, half full
	for s := from; s < to; s++ {
		first, end := min(s*panelRows/2, gate.Rows), min((s+1)*panelRows/2, gate.Rows)
		Pack(both[:bytes], gate.RowSpan(first, end), format, 0, 1)
		Pack(both[bytes:], up.RowSpan(first, end), format, 0, 1)
		for i := range bytes / piece {
			at := i%2*bytes + (i/panelPieces*panelPieces+i%panelPieces/2)*piece
			copy(dst[(s-from)*bytes+i*piece:][:piece], both[at:])
		}
	}
}

// packBF16 is Pack in BF16.
func packBF16(dst []byte, t quant.Tensor, from, to int) {
	cols := units(t.Cols) * columns
	bytes := cols * panelRows * 2
	clear(dst[:(to-from)*bytes])
	numbers, row := make([]float32, t.Cols), make([]byte, 2*cols)
	for r := from * panelRows; r < min(to*panelRows, t.Rows); r++ {
		if t.Format == quant.BF16 {
			copy(row, t.Row(r))
		} else {
			quant.Decode(t.Format, numbers, t.Row(r))
			for i, x := range numbers {
				binary.LittleEndian.PutUint16(row[2*i:], quant.F32ToBF16(x))
			}
		}
		first := dst[(r/panelRows-from)*bytes+r%panelRows/pieceRows*pieceBytes:] // the row's first piece
		for c := 0; c < cols; c += 8 {
			copy(first[c/pieceCols*panelPieces*pieceBytes+c%pieceCols/8*128+r%pieceRows*16:][:16], row[2*c:])
		}
	}
}
