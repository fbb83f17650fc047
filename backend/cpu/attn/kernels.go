package attn

import (
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// A matmulFunc is out[m][·] = start + Σ_k a[m][k]·b[k][·] for a fixed number of rows m and two vectors of columns; k goes
// over n rows, step bytes apart, in each of some blocks. b is a table of the blocks' addresses; those `ahead` entries later are
// prefetched meanwhile. The first vector is off bytes into a row of the block at b, the second off + gap bytes into
// one of the block at b + pair bytes. Rows of out are ld bytes apart, those of a lda. start is 0 for zero, 1 for what out
// holds, 2 for that times scale[m]. n and blocks are at least 1.
type matmulFunc func(out *float32, ld int, a *float32, lda int, b **byte, pair, off, gap, step int, blocks, n int, scale *float32, start int)

// ahead is how many entries of the block table a key tile has.
const ahead = keyTile / Block

// kernels are one tier's functions.
type kernels struct {
	lanes   int                        // numbers in a vector
	matmuls [elementCount][]matmulFunc // by rows - 1; none of I8 and I4
	softmax func(scores, rowMax, rowSum, rescale *float32, n int)
	i8      int8Kernels
	int4    int4Func
}

// generic is plain Go.
var generic = &kernels{
	lanes:   8,
	matmuls: [elementCount][]matmulFunc{genericMatmuls(readF32, 4), genericMatmuls(readF16, 2), genericMatmuls(readBF16, 2)},
	softmax: genericSoftmax,
	i8:      genericInt8,
	int4:    genericInt4,
}

func readF32(p *byte) float32  { return *(*float32)(unsafe.Pointer(p)) }
func readF16(p *byte) float32  { return quant.F16ToF32(*(*uint16)(unsafe.Pointer(p))) }
func readBF16(p *byte) float32 { return quant.BF16ToF32(*(*uint16)(unsafe.Pointer(p))) }

// genericMatmuls are matmuls of one to four rows, with eight lanes.
func genericMatmuls(read func(*byte) float32, size int) []matmulFunc {
	var all []matmulFunc
	for rows := 1; rows <= 4; rows++ {
		all = append(all, func(out *float32, ld int, a *float32, lda int, b **byte, pair, off, gap, step int, blocks, n int, scale *float32, start int) {
			for m := range rows {
				y := unsafe.Slice(offset(out, m*ld), 16)
				switch start {
				case 0:
					clear(y)
				case 2:
					for i := range y {
						y[i] *= *offset(scale, 4*m)
					}
				}
				for k := range blocks * n {
					b0 := offset(*offset(b, 8*(k/n)), off+k%n*step)
					b1 := offset(*offset(b, 8*(k/n)+pair), off+gap+k%n*step)
					x := *offset(a, m*lda+4*k)
					for i := range 8 {
						y[i] += x * read(offset(b0, i*size))
						y[i+8] += x * read(offset(b1, i*size))
					}
				}
			}
		})
	}
	return all
}

// genericSoftmax is the step of the online softmax: see Tile.attendKeyTile.
func genericSoftmax(scores, rowMax, rowSum, rescale *float32, n int) {
	for r := range n {
		row, t, s := unsafe.Slice(offset(scores, r*4*keyTile), keyTile), offset(rowMax, 4*r), offset(rowSum, 4*r)
		high := *t
		for _, x := range row {
			high = max(high, x)
		}
		c := exp2(*t - high)
		*offset(rescale, 4*r) = c
		var total float32
		for i, x := range row {
			row[i] = exp2(x - high)
			total += row[i]
		}
		*t, *s = high, *s*c+total
	}
}

// exp2 is 2ˣ for x ≤ 0, to a float32's last bit or so; math.Exp2 takes ten times as long.
func exp2(x float32) float32 {
	if x < -150 {
		return 0
	}
	whole := math.RoundToEven(float64(x))
	y, sum, term := (float64(x)-whole)*math.Ln2, 1.0, 1.0
	for n := 1.0; n < 8; n++ { // |y| ≤ ½ ln 2: the next term is below 6e-9
		term *= y / n
		sum += term
	}
	return float32(math.Float64frombits(uint64(1023+int64(whole))<<52) * sum)
}

// offset is p moved by n bytes.
func offset[T any](p *T, n int) *T { return (*T)(unsafe.Add(unsafe.Pointer(p), n)) }
