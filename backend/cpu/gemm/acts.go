package gemm

import (
	"fmt"
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// ActFormat is how activations are laid out for a kernel.
type ActFormat uint8

// The formats of activations. Lines are for quantised weights: every block of 32 numbers becomes 64 bytes, 32 signed
// bytes that count 127ths of the block's largest magnitude, then
//
//	[32] f32  scale        [36] i32  lineMagic − 128 Σ        [40] 2 i32  likewise, of either half of the block
//	[48] f32  scale · Σ    [52] 2 f32  likewise, of either half
//
// where Σ is the sum of the bytes: a kernel starts its integer sum at [36] to make up for weights that are 128 too
// large, and minima are multiplied by [48].
const (
	Float32 ActFormat = iota
	BFloat16
	Lines
)

const (
	lineBytes = 64
	lineScale = 32
	lineBias  = 36
	lineSum   = 48
	lineMagic = 0x4b400000 // the bits of 1.5 · 2²³: adding an integer below 2²² to them adds it to the float
)

// ActFormatOf is the fastest format of activations for weights of format f. Float32 is exact for every float format,
// and may be chosen instead.
func ActFormatOf(tier Tier, f quant.Format) ActFormat {
	if _, packed := packings[f]; packed {
		return Lines
	}
	if f == quant.BF16 && tier.kernels().panelBF16 != nil {
		return BFloat16
	}
	return Float32
}

// Acts is a matrix of M rows of K activations.
type Acts struct {
	Format ActFormat
	M, K   int
	base   *byte
	stride int // bytes from row to row
}

// FloatActs is x, [m, k] row-major, as it is; x must not change while the result is used.
func FloatActs(x []float32, m, k int) Acts {
	if len(x) < m*k || m <= 0 || k <= 0 {
		panic(fmt.Sprintf("gemm: %d numbers are not %d rows of %d", len(x), m, k))
	}
	return Acts{Format: Float32, M: m, K: k, base: (*byte)(unsafe.Pointer(&x[0])), stride: 4 * k}
}

// ActBytes is the room NewActs needs.
func ActBytes(f ActFormat, m, k int) int { return m * actStride(f, k) }

func actStride(f ActFormat, k int) int {
	switch f {
	case Lines:
		return k / 32 * lineBytes
	case BFloat16:
		return (k + 31) / 32 * 64 // whole vectors
	}
	return 4 * k
}

// NewActs lays m rows of k activations out in buf, which holds ActBytes and which Fill writes. k is a multiple of 32
// for Lines.
func NewActs(f ActFormat, buf []byte, m, k int) Acts {
	if len(buf) < ActBytes(f, m, k) || m <= 0 || k <= 0 || f == Lines && k%32 != 0 {
		panic(fmt.Sprintf("gemm: %d bytes do not hold %d rows of %d activations in format %d", len(buf), m, k, f))
	}
	return Acts{Format: f, M: m, K: k, base: &buf[0], stride: actStride(f, k)}
}

// Fill converts rows [from, to) of x, [M, K] row-major. Ranges may be filled by different goroutines.
func (a Acts) Fill(tier Tier, x []float32, from, to int) {
	k := tier.kernels()
	for r := from; r < to; r++ {
		row, dst := x[r*a.K:(r+1)*a.K], offset(a.base, r*a.stride)
		switch a.Format {
		case Lines:
			k.quantizeLines(dst, &row[0], a.K/32)
		case BFloat16:
			a.fillBF16(k, dst, row)
		default:
			copy(floatsAt((*float32)(unsafe.Pointer(dst)), a.K), row)
		}
	}
}

// fillBF16 rounds a row; what is left of its last vector becomes zero.
func (a Acts) fillBF16(k *kernels, dst *byte, row []float32) {
	whole := a.K / 16
	if whole > 0 {
		k.narrowBF16(dst, &row[0], whole)
	}
	if rest := row[16*whole:]; len(rest) > 0 {
		var last [16]float32
		copy(last[:], rest)
		k.narrowBF16(offset(dst, 32*whole), &last[0], 1)
		whole++
	}
	clear(bytesAt(offset(dst, 32*whole), a.stride-32*whole))
}

// at is the address of row r, disp bytes in.
func (a *Acts) at(r, disp int) *byte { return offset(a.base, r*a.stride+disp) }
