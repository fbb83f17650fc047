package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// round writes the quantization of rows of n floats x·by to 16-bit integers, in place: see int8Kernels of package attn. Signed ones
// are of Q, with a bias.
func round(w emit.Width, name string, signed bool) {
	name += w.Suffix()
	signature, doc := "func(x, by *float32, n, rows int, most float32, scale *float32", name+" rounds rows of n products x·by in place."
	if signed {
		signature += ", bias *int32"
	}
	w.Func(name, signature+")", doc)
	r := rounder{w, signed}
	w.Arg("n", RDX)
	w.ANDQ(Imm(uint64(w.Bytes/4-1)), RDX)
	w.TailMask(RDX)
	w.Arg("x", RDI)
	scale, rows := w.Arg("scale", R8), w.Arg("rows", R10)
	if signed {
		w.Arg("bias", R9)
	}
	w.Label("row")
	r.largest()
	r.inverse(scale)
	r.levels()
	if signed {
		w.ReduceLanes(w.VPADDD, 4, 5)
		w.VPSLLD(U8(7), X4, X4)
		w.VPXOR(X5, X5, X5)
		w.VPSUBD(X4, X5, X4)
		w.VMOVD(X4, emit.At(R9, 0))
		w.Advance(R9, 4)
	}
	w.Advance(scale, 4)
	w.MOVQ(RSI, RDI)
	w.DECQ(rows)
	w.JNZ(LabelRef("row"))
	w.VZEROUPPER()
	w.RET()
}

// rounder keeps a row in RDI, what it is multiplied by in RAX and the vectors left in RCX; RDX is how many numbers come
// after them. Register 3 has the factor that makes levels of numbers, 4 their sum.
type rounder struct {
	emit.Width
	signed bool
}

// each goes over a row; do gets its products in register 1. It leaves RSI at the row's end.
func (r rounder) each(label string, do func(), step func()) {
	r.MOVQ(RDI, RSI)
	r.Arg("by", RAX)
	r.Arg("n", RCX)
	r.SHRQ(U8(map[bool]uint8{true: 4, false: 3}[r.AVX512()]), RCX)
	r.JZ(LabelRef(label + "Tail"))
	r.Label(label)
	r.VMOVUPS(emit.At(RSI, 0), r.Reg(1))
	r.VMULPS(emit.At(RAX, 0), r.Reg(1), r.Reg(1))
	do()
	r.Advance(RSI, r.Bytes)
	r.Advance(RAX, r.Bytes)
	step()
	r.DECQ(RCX)
	r.JNZ(LabelRef(label))
	r.Label(label + "Tail")
	r.TESTQ(RDX, RDX)
	r.JZ(LabelRef(label + "Done"))
	r.LoadTail(emit.At(RSI, 0), r.Reg(1))
	r.LoadTail(emit.At(RAX, 0), r.Reg(2))
	r.VMULPS(r.Reg(2), r.Reg(1), r.Reg(1))
	do()
	r.LEAQ(Mem{Base: RSI, Index: RDX, Scale: 4}, RSI)
	r.Label(label + "Done")
}

// largest leaves the largest magnitude in the lowest lane of register 0: compared as integers, so that a NaN wins and shows
// in the scale.
func (r rounder) largest() {
	r.Zero(r.Reg(0))
	r.each("largest", func() {
		r.And(r.RepeatBits("positive", 0x7fffffff), r.Reg(1), r.Reg(1))
		r.VPMAXSD(r.Reg(1), r.Reg(0), r.Reg(0))
	}, func() {})
	r.ReduceLanes(r.VPMAXSD, 0, 1)
}

// inverse stores the scale and leaves the factor in register 3: 0 for rows so small that it would not be finite.
func (r rounder) inverse(scale GPPhysical) {
	r.VMOVSS(r.Slot("most"), X2)
	r.VDIVSS(X2, X0, X1)
	r.VMOVSS(X1, emit.At(scale, 0))
	r.VDIVSS(X0, X2, X3)
	r.MOVL(U32(math.Float32bits(0x1p-110)), EAX)
	r.VMOVD(EAX, X1)
	r.VCMPSS(Imm(2), X0, X1, X1)
	r.VANDPS(X1, X3, X3)
	r.VBROADCASTSS(X3, r.Reg(3))
}

// levels rounds a row to integers, stored from R11 on.
func (r rounder) levels() {
	if r.signed {
		r.Zero(r.Reg(4))
	}
	r.MOVQ(RDI, R11)
	r.each("levels", func() {
		r.VMULPS(r.Reg(3), r.Reg(1), r.Reg(1))
		r.VCVTPS2DQ(r.Reg(1), r.Reg(1))
		if r.signed {
			r.VPADDD(r.Reg(1), r.Reg(4), r.Reg(4))
		}
		if r.AVX512() {
			r.groups512()
		} else {
			r.groups256()
		}
	}, func() { r.Advance(R11, r.Bytes/2) })
}

// groups512 stores the integers in register 1 as groups. Lower bytes are signed like upper ones, or neither are.
func (r rounder) groups512() {
	upper := Z1
	if r.signed {
		upper = Z6
		r.VPADDD(r.RepeatBits("half", 128), Z1, upper)
	}
	r.VPSRAD(U8(8), upper, Z6)
	r.VPMOVDB(Z1, X5)
	r.VPMOVDB(Z6, X6)
	r.VPUNPCKLDQ(X5, X6, X7)
	r.VPUNPCKHDQ(X5, X6, X8)
	r.VMOVDQU(X7, emit.At(R11, 0))
	r.VMOVDQU(X8, emit.At(R11, 16))
}

// groups256 does so for eight integers.
func (r rounder) groups256() {
	r.VEXTRACTI128(Imm(1), Y1, X5)
	r.VPACKSSDW(X5, X1, X5)
	if r.VNNI {
		upper := X5
		if r.signed {
			upper = X7
			r.VPADDW(r.RepeatBits("halves", 0x00800080), X5, upper)
		}
		r.VPSRAW(U8(8), upper, X7)
		r.VPAND(r.RepeatBits("low", 0x00ff00ff), X5, X6)
		r.VPACKUSWB(X6, X6, X6)
		r.VPACKSSWB(X7, X7, X7)
		r.VPUNPCKLDQ(X6, X7, X5)
	}
	r.VMOVDQU(X5, emit.At(R11, 0))
}
