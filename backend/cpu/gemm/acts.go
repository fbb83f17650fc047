package gemm

import (
	"fmt"
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// ActFormat is how activations are laid out for a kernel.
type ActFormat uint8

// The formats of activations. Q8 is for quantised weights: every 32 numbers become a Q8 block of 64 bytes, 32 signed
// bytes in steps of 1/127 of the block's largest magnitude, then
//
//	[32] f32  scale        [36] i32  floatMagic − 128 Σ        [40] 2 i32  likewise, of either half of the block
//	[48] f32  scale · Σ    [52] 2 f32  likewise, of either half
//
// where Σ is the sum of the bytes: a kernel starts its integer sum at [36], which corrects for weights stored with an offset
// of 128, and minima are multiplied by [48].
//
// BFloat16 is float32 in memory, like Float32, but allows matmuls with BF16 weights to round activations to bf16,
// where the tier has a bf16 dot product and there are enough rows for it to pay.
const (
	Float32 ActFormat = iota
	BFloat16
	Q8
)

const (
	q8BlockBytes = 64
	q8Scale      = 32
	q8Bias       = 36
	q8Sum        = 48
	floatMagic   = 0x4b400000 // the bits of 1.5 · 2²³: adding an integer below 2²² to them adds it to the float
)

// ActFormatOf is the fastest format of activations for weights of format f. Float32 is exact for every float format,
// and may be chosen instead.
func ActFormatOf(tier Tier, f quant.Format) ActFormat {
	if _, packed := packings[f]; packed {
		return Q8
	}
	if f == quant.BF16 && tier.kernels().panelBF16 != nil {
		return BFloat16
	}
	return Float32
}

// Acts is a matrix of M rows of K activations.
type Acts struct {
	Format         ActFormat
	M, K           int
	BatchInvariant bool // a row's results do not depend, to the last bit, on the other rows of the batch: see mulFloat. Q8 always is, unless grouped
	base           *byte
	rowStride      int // bytes from row to row
	blockStride    int // bytes from Q8 block to Q8 block
	tiled          int // rows stored in tiles, see TiledActs; the others lie at rowStride and blockStride
	group          int // numbers of a row that share a scale, see GroupedActs; 0: Q8 blocks
	groupHeader    int // bytes before their codes
}

// FloatActs is a view of x, [m, k] row-major; x must not change while the result is used. Its Format may be changed to
// BFloat16.
func FloatActs(x []float32, m, k int) Acts {
	if len(x) < m*k || m <= 0 || k <= 0 {
		panic(fmt.Sprintf("gemm: %d numbers are not %d rows of %d", len(x), m, k))
	}
	return Acts{Format: Float32, M: m, K: k, base: (*byte)(unsafe.Pointer(&x[0])), rowStride: 4 * k}
}

// ActBytes is the size in bytes of the memory NewActs needs.
func ActBytes(f ActFormat, m, k int) int { return m * actStride(f, k) }

func actStride(f ActFormat, k int) int {
	if f == Q8 {
		return k / 32 * q8BlockBytes
	}
	return 4 * k
}

// NewActs lays m rows of k activations out in buf, which holds ActBytes and which Fill writes. k is a multiple of 32 for Q8.
func NewActs(f ActFormat, buf []byte, m, k int) Acts {
	if len(buf) < ActBytes(f, m, k) || m <= 0 || k <= 0 || f == Q8 && k%32 != 0 {
		panic(fmt.Sprintf("gemm: %d bytes do not hold %d rows of %d activations in format %d", len(buf), m, k, f))
	}
	return Acts{Format: f, M: m, K: k, base: &buf[0], rowStride: actStride(f, k), blockStride: q8BlockBytes}
}

// TiledActs is NewActs with Q8 in the layout that Mul reads sequentially: packed A, in BLIS's terms. Blocks of rows that lie a power
// of two apart would map to the same cache sets. A batch, of as many rows as such kernels take, is [block][row]; many rows are
// [K-block of kc][tile of mr rows][block][row of the tile]. Fewer rows, those that fill no tile, and all on tiers without
// such kernels, lie as NewActs lays them.
func TiledActs(tier Tier, buf []byte, m, k int) Acts {
	a, kernels := NewActs(Q8, buf, m, k), tier.kernels()
	switch tiles := m / mr; {
	case kernels.minTiles > 0 && tiles >= kernels.minTiles:
		a.tiled = tiles * mr
	case kernels.batch[layoutU8] != nil && m >= minBatchRows && m <= streamRows:
		a.rowStride, a.blockStride = q8BlockBytes, m*q8BlockBytes
	}
	return a
}

// Fill converts rows [from, to) of x, [M, K] row-major. Ranges may be filled by different goroutines.
func (a Acts) Fill(tier Tier, x []float32, from, to int) {
	for r := from; r < to; r++ {
		row := x[r*a.K : (r+1)*a.K]
		if a.Format == Q8 {
			a.FillPart(tier, row, r, 0)
		} else {
			copy(floatsAt((*float32)(unsafe.Pointer(a.at(r, 0))), a.K), row)
		}
	}
}

// FillPart quantizes a part of row r, numbers from on, to Q8. from and the length of x are multiples of 32.
func (a *Acts) FillPart(tier Tier, x []float32, r, from int) {
	if a.group > 0 {
		a.fillGrouped(tier.kernels(), x, r, from)
		return
	}
	quantize := tier.kernels().quantizeQ8
	for len(x) > 0 {
		n := len(x)
		if r < a.tiled {
			n = min(n, kc-from%kc)
		}
		to := a.blocksAt(r, from)
		quantize(to.first, to.blockStride, &x[0], n/32)
		x, from = x[n:], from+n
	}
}

// CopyRow copies row i of other, Q8 of as many numbers, to row r.
func (a *Acts) CopyRow(r int, other *Acts, i int) {
	for k := 0; k < a.K; k += kc {
		to, from := a.blocksAt(r, k), other.blocksAt(i, k)
		for block := range min(kc, a.K-k) / 32 {
			*(*[q8BlockBytes]byte)(unsafe.Pointer(offset(to.first, block*to.blockStride))) = *(*[q8BlockBytes]byte)(unsafe.Pointer(offset(from.first, block*from.blockStride)))
		}
	}
}

// blockMajor reports whether rows are stored as [block][row]; see TiledActs.
func (a *Acts) blockMajor() bool { return a.blockStride > q8BlockBytes }

// at is the address of byte disp of row r, which is stored contiguously.
func (a *Acts) at(r, disp int) *byte { return offset(a.base, r*a.rowStride+disp) }

// blockAddr is the address of a Q8 block of a row, and the strides in bytes to the next row of the tile, the next block and the next
// tile.
type blockAddr struct {
	first                              *byte
	rowStride, blockStride, tileStride int
}

// blocksAt is the address of row r's blocks from number k on, valid to the end of the K-block if the row is in a tile.
func (a *Acts) blocksAt(r, k int) blockAddr {
	if r >= a.tiled {
		return blockAddr{a.at(r, k/32*a.blockStride), a.rowStride, a.blockStride, mr * a.rowStride}
	}
	const step = mr * q8BlockBytes
	k0 := k / kc * kc
	tile := min(kc, a.K-k0) / 32 * step
	disp := k0/32*q8BlockBytes*a.tiled + r/mr*tile + (k-k0)/32*step + r%mr*q8BlockBytes
	return blockAddr{offset(a.base, disp), q8BlockBytes, step, tile}
}
