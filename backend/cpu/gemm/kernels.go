package gemm

import "unsafe"

// A dotFunc adds the products of a fixed number of rows of activation lines, stride bytes apart, with the rows of
// weights of one call to out, whose rows are ld bytes apart: blocks of 32 k, codes at w, expanded scales at scale. Fresh
// sums are set, not added to. While
// it works it fetches from ahead and ahead2 on, see fetching. Where
// the format has minima, expanded like the scales, they are multiplied by the sums of the lines.
type dotFunc func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, stride int, blocks int, ahead, ahead2 uintptr, mins *float32)

// A panelFunc does so for float weights interleaved as [n][32 rows]; the pointers step by wStep and actStep bytes, and that to
// what is read ahead, on amd64, by aheadStep.
type panelFunc func(out *float32, ld int, fresh bool, w *byte, wStep int, act *byte, stride int, actStep int, n int, ahead uintptr, aheadStep int)

// A rowFunc does so for row-major float weights, wStride bytes apart, over n whole vectors of k.
type rowFunc func(out *float32, ld int, w *byte, wStride int, act *byte, stride int, n int)

// A scaleFunc expands n blocks or super-blocks of packed scales of 32 rows to float32, and minima where they are. It
// fetches two cache lines from ahead on for each block of 32 k.
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
	rows  int // of weights in a call of dot and panel: 32 or 16
	dot   [formCount][]dotFunc
	batch [formCount]batchFunc // of every form, or of none: dot does it all

	storeBatch  func(out *float32, ld int, sums *float32, rows int) // with batch: sums, [rows][32], go to out
	expectBatch func(out *float32, ld int, rows int)                // calls for the memory that will be stored to
	unpack      [formCount]func(panel, w *byte, blocks int)
	unpacked    [2]formID // what that makes of forms with scales for 32 weights, and for 16
	scales      [scaleCount]scaleFunc
	panel       []panelFunc
	panelBF16   []panelFunc // nil without bf16 dot products

	// tile multiplies codes of a form, without minima or with them, after unpackTile, where there is one, has unpacked them
	// its way; nil where dot does it all.
	tile       [formCount][2]tileFunc
	unpackTile [formCount]func(panel, w *byte, blocks int)
	leastTiles int // from how many tiles on it is used

	// What wide products need; nil where there are none. Scales and minima of groups become ratios and offsets in their place, and
	// wide scales; rescale unpacks codes by those; quantizeWide rounds blocks × groups of a row of activations.
	ratios       func(scales, mins, wide *float32, lines, groups int)
	rescale      [formCount]func(panel, w *byte, ratios, offsets *float32, blocks int)
	wideTile     wideFunc
	quantizeWide func(head, codes *byte, src *float32, blocks, groups int)

	lanes   int                     // 32-bit lanes of a row kernel's vector
	fourRow [elementPairs][]rowFunc // four rows of weights
	oneRow  [elementPairs]rowFunc   // one row of weights, one of activations

	pack       [pieceCount]packFunc
	packHalves func(dst *byte, dstStep int, src *byte, srcStep, stride, n int) // two bytes of 32 rows, n times

	// fetchRows reads ahead into the second-level cache; nil where it is not worth it.
	fetchRows func(p uintptr, stride, rows, bytes int)

	quantizeLines func(dst *byte, step int, src *float32, n int) // blocks of 32 to lines, step bytes apart
	widenF16      func(dst *float32, src *byte, n int)           // 8 n numbers
	widenBF16     func(dst *float32, src *byte, n int)
	narrowBF16    func(dst *byte, src *float32, n int) // 16 n numbers; nil without bf16 dot products

	peaks [Lines + 1]peakLoop
	read  func(p *byte, lines int) // by eights
}

// unpackedForm is what codes of form f are unpacked to.
func (k *kernels) unpackedForm(f formID) formID {
	if f.sub16() {
		return k.unpacked[1]
	}
	return k.unpacked[0]
}

func floatsAt(p *float32, n int) []float32 { return unsafe.Slice(p, n) }
func bytesAt(p *byte, n int) []byte        { return unsafe.Slice(p, n) }

// address is p as a number: what is only fetched from may lie beyond what was allocated, where no pointer may point.
func address(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// offset is p moved by n bytes.
func offset(p *byte, n int) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(p), n)) }

// offsetFloats is p moved by n floats.
func offsetFloats(p *float32, n int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*n)) }
