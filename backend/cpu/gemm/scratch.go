package gemm

import "unsafe"

// Cache blocking, in numbers of k. A panel of 32 rows is 32 KiB, so that it stays in a 48 KiB first-level cache while
// tiles of activations pass by; those of one pass stay in the second level.
const (
	panelK     = 1024              // codes in a panel
	fewK       = 512               // codes whose scales are expanded at once when nothing is unpacked
	panelWords = 256               // 32-bit words of each row in a float panel
	panelRows  = 12                // rows of activations that a kernel multiplies with a panel of floats at a time, at most
	passRows   = 258               // rows of activations that share one unpacked panel of codes
	floatRows  = 516               // likewise of floats, which take longer to interleave
	wideRows   = 516               // likewise of wide activations, which take half the room of others
	aloneRows  = 96                // likewise of floats that are not interleaved: what the second-level cache holds
	passStride = 4*panelWords + 64 // bytes from row to row of float activations that were copied together
	passBytes  = 528 << 10         // of activations that one pass over the weights may use
)

// Scratch is the working memory of one goroutine's Mul: about 650 KiB, whatever the matrices.
type Scratch struct {
	panel  []byte    // codes as U8, [panelK/4][32 rows][4], or float words, [panelWords][32 rows]
	rows   []byte    // float weights before they are interleaved, [32][panelWords] words
	scales []float32 // [blocks][32], or [blocks][2][32]
	mins   []float32
	wide   []float32 // scales of wide products, [groups][32]
	acts   []byte    // float activations of one pass that were copied together, [floatRows][passStride]; see tileSums, too
	tile   []float32 // [panelRows][32]: results of the last rows of a matrix that Granule does not divide
	sums   []float32 // [streamRows][32]: results of a batch, see batched

	reading Reading
}

// NewScratch allocates.
func NewScratch() *Scratch {
	const panel, rows, acts = panelWords * planeBytes, Granule * panelWords * 4, floatRows * passStride
	const scales, wide, tile, sums = panelK / 16 * Granule, panelK / 32 * Granule, panelRows * Granule, streamRows * Granule
	bytes := make([]byte, 64+panel+rows+acts+4*(2*scales+wide+tile+sums))
	bytes = bytes[-uintptr(unsafe.Pointer(&bytes[0]))&63:] // a vector load must not straddle two cache lines
	floats := func(n int) []float32 {
		f := unsafe.Slice((*float32)(unsafe.Pointer(&bytes[0])), n)
		bytes = bytes[4*n:]
		return f
	}
	s := &Scratch{panel: bytes[:panel], rows: bytes[panel : panel+rows], acts: bytes[panel+rows : panel+rows+acts]}
	bytes = bytes[panel+rows+acts:]
	s.scales, s.mins, s.wide, s.tile, s.sums = floats(scales), floats(scales), floats(wide), floats(tile), floats(sums)
	return s
}
