package gemm

import "unsafe"

// A dotFunc is a micro-kernel that adds the products of a fixed number of rows of Q8 activations, stride bytes apart, with the rows
// of weights of one call to out, whose rows are ld bytes apart: blocks of 32 k, codes at w, expanded scales at scale. Fresh
// sums are set, not added to. It prefetches from ahead and ahead2 on, see tilePrefetch. Where the format has minima,
// expanded like the scales, they are multiplied by the sums of the Q8 blocks.
type dotFunc func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, stride int, blocks int, ahead, ahead2 uintptr, mins *float32)

// A panelFunc does so for float weights interleaved as a panel [n][NR]; the pointers advance by wStep and actStep bytes, and the
// prefetch address, on amd64, by aheadStep.
type panelFunc func(out *float32, ld int, fresh bool, w *byte, wStep int, act *byte, stride int, actStep int, n int, ahead uintptr, aheadStep int)

// A rowFunc does so for row-major float weights, wStride bytes apart, over n whole vectors of k.
type rowFunc func(out *float32, ld int, w *byte, wStride int, act *byte, stride int, n int)

// A scaleFunc expands n blocks or super-blocks of packed scales of NR rows to float32, and minima where there are any. It
// prefetches two cache lines from ahead on for each block of 32 k.
type scaleFunc func(dst, mins *float32, src *byte, n int, ahead uintptr, mul, off float32)

// element is a pair of weight and activation formats that the row kernels multiply.
type element uint8

const (
	elementF32 element = iota
	elementF16
	elementBF16
	elementPairs // bf16 weights and bf16 activations; panels only
)

// kernels is everything one tier provides. Slices of functions are indexed by activation rows less one.
type kernels struct {
	rows    int // of weights in a call of dot and panel: 32 or 16; but see wideRow
	dot     [layoutCount][]dotFunc
	wideRow bool                   // dot kernels of one row of activations multiply NR rows of weights
	batch   [layoutCount]batchFunc // of every code layout, or of none: then dot computes batches too

	batchGroups func(rows int) uint64 // how batch is told how many rows there are

	storeBatch  func(out *float32, ld int, sums *float32, rows int) // with batch: sums, [rows][32], go to out
	prefetchOut func(out *float32, ld int, rows int)                // prefetches, for writing, what storeBatch will write
	unpack      [layoutCount]func(panel, w *byte, blocks int)
	unpacked    [2]codeLayout // the result of unpack, of layouts with scales for 32 weights, and for 16
	scales      [scaleCount]scaleFunc
	panelF32    []panelFunc
	panelBF16   []panelFunc // nil without bf16 dot products

	// tile multiplies codes of a layout, without minima or with them, that unpackTile or, for the rows of weights of one call, unpackHalf has unpacked
	// for it, where there is one; nil where dot computes tiles too.
	tile       [layoutCount][2]tileFunc
	unpackTile [layoutCount]func(panel, w *byte, blocks int)
	unpackHalf [layoutCount]func(panel, w *byte, blocks int)
	minTiles   int // the number of tiles from which on it is used

	// wordTile does so for codes that unpackTile leaves as bytes, or that are bytes, as words that unpackWords makes of 16 rows of weights and widenBlocks of a row of
	// activations; nil where tile multiplies bytes.
	wordTile    [layoutCount]wordsFunc
	unpackWords func(panel, w *byte, blocks int)
	widenBlocks func(words, scales *byte, to int, src *byte, step, n int)

	// For grouped matmuls of so many rows or more; nil where there are none. requantScales turns the scales and minima of groups into ratios and offsets in
	// place, and group scales; requant unpacks codes with those; quantizeGrouped rounds blocks × groups of a row of activations.
	minGrouped      int
	fill            int // sixteenths of their tiles that fewer than minGroupedRows must be
	requantScales   func(scales, mins, groupScales *float32, subBlocks, groups int)
	requant         [layoutCount]func(panel, w *byte, ratios, offsets *float32, blocks int)
	groupedTile     groupedFunc
	quantizeGrouped func(head, codes *byte, src *float32, blocks, groups int)

	// Or: wholeScales makes multiples of group scales of scales, and wholeScalesMin of minima too, with which scaledTile multiplies codes that unpackHalf has unpacked, factor
	// times as small as others; nil for layouts without such kernels.
	wholeScales, wholeScalesMin func(scales, mins, groupScales *float32, subBlocks, groups int, factor, far float32)
	scaledTile                  [layoutCount]scaledKernels
	factor                      [layoutCount]float32
	far                         [layoutCount]float32 // what the bytes of these codes are off by, 0 where kernels take them as signed

	lanes   int                     // 32-bit lanes of a row kernel's vector
	fourRow [elementPairs][]rowFunc // four rows of weights
	oneRow  [elementPairs]rowFunc   // one row of weights, one of activations

	rowTiles int // the most calls of fourRow for the same weights before interleaving these pays; see rowActs

	pack    [opCount]packFunc
	packF16 func(dst *byte, dstStep int, src *byte, srcStep, stride, n int) // two bytes of 32 rows, n times

	// prefetchRows prefetches rows of bytes, stride apart, into the L2 cache; nil where it is not worth it.
	prefetchRows func(p uintptr, stride, rows, bytes int)

	quantizeQ8 func(dst *byte, step int, src *float32, n int) // n blocks of 32 to Q8 blocks, step bytes apart
	roundBytes func(codes *byte, scales, src *float32, n int) // likewise, bytes and scales apart
	widenF16   func(dst *float32, src *byte, n int)           // 8 n numbers
	widenBF16  func(dst *float32, src *byte, n int)
	narrowBF16 func(dst *byte, src *float32, n int) // 16 n numbers; nil without bf16 dot products

	peaks [Q8 + 1]peakLoop
	read  func(p *byte, lines int) // cache lines, a multiple of 8
}

// unpackedLayout is what codes of layout f are unpacked to.
func (k *kernels) unpackedLayout(f codeLayout) codeLayout {
	if f.sub16() {
		return k.unpacked[1]
	}
	return k.unpacked[0]
}

func floatsAt(p *float32, n int) []float32 { return unsafe.Slice(p, n) }
func bytesAt(p *byte, n int) []byte        { return unsafe.Slice(p, n) }

// address is p as a number: what is only prefetched from may lie beyond what was allocated, where no pointer may point.
func address(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// offset is p moved by n bytes.
func offset(p *byte, n int) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(p), n)) }

// offsetFloats is p moved by n floats.
func offsetFloats(p *float32, n int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*n)) }
