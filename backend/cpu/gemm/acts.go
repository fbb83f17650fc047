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
//
// BFloat16 is float32 in memory, like Float32, but allows products with BF16 weights to round activations to bf16 on the
// way, where the tier has a dot product for them and there are enough rows to be worth it.
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
	Alone  bool // a row's results are the same bits whatever other rows come along: see floats. Lines are, unless they are wide
	base   *byte
	stride int // bytes from row to row
	step   int // bytes from block to block of Lines
	tiled  int // rows that lie in tiles, see TiledActs; the others lie as stride and step say
	group  int // numbers of a row that share a scale, see WideActs; 0: lines
}

// FloatActs is x, [m, k] row-major, as it is; x must not change while the result is used. Its format may be changed to
// BFloat16.
func FloatActs(x []float32, m, k int) Acts {
	if len(x) < m*k || m <= 0 || k <= 0 {
		panic(fmt.Sprintf("gemm: %d numbers are not %d rows of %d", len(x), m, k))
	}
	return Acts{Format: Float32, M: m, K: k, base: (*byte)(unsafe.Pointer(&x[0])), stride: 4 * k}
}

// ActBytes is the room NewActs needs.
func ActBytes(f ActFormat, m, k int) int { return m * actStride(f, k) }

func actStride(f ActFormat, k int) int {
	if f == Lines {
		return k / 32 * lineBytes
	}
	return 4 * k
}

// NewActs lays m rows of k activations out in buf, which holds ActBytes and which Fill writes. k is a multiple of 32
// for Lines.
func NewActs(f ActFormat, buf []byte, m, k int) Acts {
	if len(buf) < ActBytes(f, m, k) || m <= 0 || k <= 0 || f == Lines && k%32 != 0 {
		panic(fmt.Sprintf("gemm: %d bytes do not hold %d rows of %d activations in format %d", len(buf), m, k, f))
	}
	return Acts{Format: f, M: m, K: k, base: &buf[0], stride: actStride(f, k), step: lineBytes}
}

// TiledActs is NewActs with Lines for Mul alone, in the layout that it takes them in fastest, in which products read them one
// behind the other; lines of rows that are a power of two apart want the same few places of the caches. A batch lies as
// [block][row], many rows as [chunk of panelK][tile of tileRows rows][block][row of the tile]. Fewer rows, those that fill no
// tile, and all on tiers without such kernels, lie as NewActs lays them.
func TiledActs(tier Tier, buf []byte, m, k int) Acts {
	a, kernels := NewActs(Lines, buf, m, k), tier.kernels()
	switch tiles := m / tileRows; {
	case kernels.tile[formU8][0] != nil && tiles >= kernels.leastTiles:
		a.tiled = tiles * tileRows
	case kernels.batch[formU8] != nil && m >= leastBatch:
		a.stride, a.step = lineBytes, m*lineBytes
	}
	return a
}

// Fill converts rows [from, to) of x, [M, K] row-major. Ranges may be filled by different goroutines.
func (a Acts) Fill(tier Tier, x []float32, from, to int) {
	for r := from; r < to; r++ {
		row := x[r*a.K : (r+1)*a.K]
		if a.Format == Lines {
			a.FillPart(tier, row, r, 0)
		} else {
			copy(floatsAt((*float32)(unsafe.Pointer(a.at(r, 0))), a.K), row)
		}
	}
}

// FillPart converts a part of row r, numbers from on, to Lines. From and the length of x are multiples of 32.
func (a *Acts) FillPart(tier Tier, x []float32, r, from int) {
	if a.group > 0 {
		a.fillWide(tier.kernels(), x, r, from)
		return
	}
	quantize := tier.kernels().quantizeLines
	for len(x) > 0 {
		n := len(x)
		if r < a.tiled {
			n = min(n, panelK-from%panelK)
		}
		to := a.lines(r, from)
		quantize(to.first, to.step, &x[0], n/32)
		x, from = x[n:], from+n
	}
}

// CopyRow makes row r the same as row i of other Lines of as many numbers.
func (a *Acts) CopyRow(r int, other *Acts, i int) {
	for k := 0; k < a.K; k += panelK {
		to, from := a.lines(r, k), other.lines(i, k)
		for block := range min(panelK, a.K-k) / 32 {
			*(*[lineBytes]byte)(unsafe.Pointer(offset(to.first, block*to.step))) = *(*[lineBytes]byte)(unsafe.Pointer(offset(from.first, block*from.step)))
		}
	}
}

// beside reports whether rows lie as [block][row]; see TiledActs.
func (a *Acts) beside() bool { return a.step > lineBytes }

// at is the address of row r, disp bytes in; the row lies by itself.
func (a *Acts) at(r, disp int) *byte { return offset(a.base, r*a.stride+disp) }

// place is where Lines of a row begin, and how many bytes on the next row's of the same tile, the next block's and the next
// tile's do.
type place struct {
	first              *byte
	stride, step, tile int
}

// lines is the place of row r from k on, as far as the chunk goes if the row lies in a tile.
func (a *Acts) lines(r, k int) place {
	if r >= a.tiled {
		return place{a.at(r, k/32*a.step), a.stride, a.step, tileRows * a.stride}
	}
	const step = tileRows * lineBytes
	chunk := k / panelK * panelK
	tile := min(panelK, a.K-chunk) / 32 * step
	disp := chunk/32*lineBytes*a.tiled + r/tileRows*tile + (k-chunk)/32*step + r%tileRows*lineBytes
	return place{offset(a.base, disp), lineBytes, step, tile}
}
