package gemm

import "unsafe"

// Cache blocking, after BLIS's names: a micro-kernel computes MR rows of activations × NR features, over K-blocks of kc numbers, for
// passes of at most mc rows of activations. An unpacked panel of NR rows × kc codes is 32 KiB, so that it stays in a 48 KiB L1 cache
// while tiles of activations pass by; the activations of one pass stay in the L2 cache.
const (
	kc             = 1024           // numbers of k in a K-block of codes
	kcDirect       = 512            // likewise where codes are unpacked in registers
	kcWords        = 256            // 32-bit words of each row in a panel of floats
	mrFloat        = 12             // rows of activations that a kernel multiplies with a panel of floats at a time, at most
	mc             = 258            // rows of activations that share one unpacked panel of codes
	mcFloat        = 516            // likewise of floats, which take longer to interleave
	mcGrouped      = 516            // likewise of activations with a scale a group, which take half the room
	mcInvariant    = 96             // likewise of floats that are not interleaved: what the L2 cache holds
	floatActStride = 4*kcWords + 64 // bytes from row to row of packed float activations
	l2Bytes        = 528 << 10      // of activations that one pass over the weights may use
)

// Scratch is the working memory of one goroutine's Mul: about 650 KiB, whatever the matrices.
type Scratch struct {
	_ cacheLine // the goroutine writes prefetch all the time: no other's Scratch may lie in a cache line with it

	bPanel      []byte    // codes as U8, [kc/4][NR][4], or float words, [kcWords][NR]
	rows        []byte    // float weights before they are interleaved, [NR][kcWords] words
	scales      []float32 // [blocks][NR], or [blocks][2][NR]
	mins        []float32
	groupScales []float32 // scales of requantized weights, [groups][NR]
	acts        []byte    // packed float activations of one pass, [mcFloat][floatActStride]; see tileSums, too
	tile        []float32 // [mrFloat][NR]: results of the last rows of a matrix that NR does not divide
	sums        []float32 // [streamRows][NR]: results of a batch, see mulBatch

	prefetch prefetcher
	beside   []uintptr // see PrefetchBeside

	_ cacheLine
}

// cacheLine is as many bytes as processors exchange at a time.
type cacheLine [64]byte

// NewScratch allocates.
func NewScratch() *Scratch {
	const panel, rows, acts = kcWords * planeBytes, NR * kcWords * 4, mcFloat * floatActStride
	const scales, groupScales, tile, sums = kc / 16 * NR, kc / 32 * NR, mrFloat * NR, streamRows * NR
	bytes := make([]byte, 64+panel+rows+acts+4*(2*scales+groupScales+tile+sums))
	bytes = bytes[-uintptr(unsafe.Pointer(&bytes[0]))&63:] // a vector load must not straddle two cache lines
	floats := func(n int) []float32 {
		f := unsafe.Slice((*float32)(unsafe.Pointer(&bytes[0])), n)
		bytes = bytes[4*n:]
		return f
	}
	s := &Scratch{bPanel: bytes[:panel], rows: bytes[panel : panel+rows], acts: bytes[panel+rows : panel+rows+acts]}
	bytes = bytes[panel+rows+acts:]
	s.scales, s.mins, s.groupScales, s.tile, s.sums = floats(scales), floats(scales), floats(groupScales), floats(tile), floats(sums)
	return s
}
