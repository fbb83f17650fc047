package gemm

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// The kernels in plain Go: what machines without the assembly run, and the definition of what the assembly computes.
var genericKernels = newGenericKernels()

func newGenericKernels() *kernels {
	k := &kernels{
		rows: NR, rowTiles: 3, unpacked: [...]codeLayout{layoutU8, layoutS8}, lanes: 1,
		pack: packsGeneric, packF16: packF16Generic,
		quantizeQ8: quantizeQ8Generic,
		widenF16:   widenGeneric(quant.F16), widenBF16: widenGeneric(quant.BF16),
		scales:   scalesGeneric,
		panelF32: []panelFunc{panelGeneric},
		read:     readGeneric,
	}
	for f := range layoutCount {
		k.unpack[f] = func(panel, w *byte, blocks int) { unpackGeneric(f, panel, w, blocks) }
		k.dot[f] = []dotFunc{func(out *float32, _ int, fresh bool, w *byte, scale *float32, act *byte, _ int, blocks int, _, _ uintptr, mins *float32) {
			startGeneric(out, fresh)
			dotGeneric(f, out, w, scale, act, blocks, mins)
		}}
	}
	for e, f := range [...]quant.Format{elementF32: quant.F32, elementF16: quant.F16, elementBF16: quant.BF16} {
		row := func(out *float32, _ int, w *byte, _ int, act *byte, _ int, n int) {
			*out += dotRow(f, bytesAt(w, n*f.BlockBytes()), floatsAt((*float32)(unsafe.Pointer(act)), n))
		}
		k.oneRow[e] = row
		k.fourRow[e] = []rowFunc{func(out *float32, ld int, w *byte, wStride int, act *byte, stride int, n int) {
			for r := range 4 {
				row(offsetFloats(out, r), ld, offset(w, r*wStride), wStride, act, stride, n)
			}
		}}
	}
	return k
}

// number reads one float weight.
func number(f quant.Format, b []byte, i int) float32 {
	switch f {
	case quant.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	case quant.F16:
		return quant.F16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
	default:
		return quant.BF16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
	}
}

func dotRow(f quant.Format, w []byte, act []float32) (sum float32) {
	for i, a := range act {
		sum += a * number(f, w, i)
	}
	return sum
}

func widenGeneric(f quant.Format) func(dst *float32, src *byte, n int) {
	return func(dst *float32, src *byte, n int) {
		b := bytesAt(src, 16*n)
		for i := range floatsAt(dst, 8*n) {
			floatsAt(dst, 8*n)[i] = number(f, b, i)
		}
	}
}

func startGeneric(out *float32, fresh bool) {
	if fresh {
		clear(floatsAt(out, NR))
	}
}

// dotGeneric is a block after a block, a row after a row, for one row of activations.
func dotGeneric(f codeLayout, out *float32, w *byte, scale *float32, act *byte, blocks int, mins *float32) {
	subs := 1
	if f.sub16() {
		subs = 2
	}
	sums := floatsAt(out, NR)
	scales := floatsAt(scale, blocks*subs*NR)
	for b := range blocks {
		var panel [8 * planeBytes]byte
		unpackGeneric(f, &panel[0], offset(w, b*f.blockBytes()), 1)
		block := bytesAt(offset(act, b*q8BlockBytes), q8BlockBytes)
		for sub := range subs {
			ws := scales[(b*subs+sub)*NR:]
			for r := range sums {
				total := int32(0)
				for k := sub * 32 / subs; k < (sub+1)*32/subs; k++ {
					total += (int32(panel[k/4*planeBytes+4*r+k%4]) - 128) * int32(int8(block[k]))
				}
				sums[r] += float32(total) * ws[r] * f32At(block, q8Scale)
			}
			if mins != nil {
				at := q8Sum + 4*(subs-1)*(1+sub)
				for r, m := range floatsAt(offsetFloats(mins, (b*subs+sub)*NR), NR) {
					sums[r] += m * f32At(block, at)
				}
			}
		}
	}
}

func panelGeneric(out *float32, _ int, fresh bool, w *byte, wStep int, act *byte, _ int, actStep int, n int, _ uintptr, _ int) {
	startGeneric(out, fresh)
	sums := floatsAt(out, NR)
	for i := range n {
		a := *(*float32)(unsafe.Pointer(offset(act, i*actStep)))
		for r, x := range floatsAt((*float32)(unsafe.Pointer(offset(w, i*wStep))), NR) {
			sums[r] += a * x
		}
	}
}

func packF16Generic(dst *byte, dstStep int, src *byte, srcStep, stride, n int) {
	for i := range n {
		to := bytesAt(offset(dst, i*dstStep), 2*NR)
		for r := range NR {
			copy(to[2*r:2*r+2], bytesAt(offset(src, i*srcStep+r*stride), 2))
		}
	}
}
