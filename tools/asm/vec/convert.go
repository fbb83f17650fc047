package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// conversions write the conversions between float32 and the 16-bit types, and from bytes, for n whole vectors of numbers.
func conversions(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		convert(w, "narrowF16", "func(dst *uint16, src *float32, n int)", 2, 1, func(src, dst Mem) {
			w.VMOVUPS(src, w.Reg(0))
			w.VCVTPS2PH(Imm(0), w.Reg(0), dst)
		})
		convert(w, "narrowBF16", "func(dst *uint16, src *float32, n int)", 2, 1, func(src, dst Mem) { narrowBF16(w, src, dst) })
		convert(w, "widenF16", "func(dst *float32, src *uint16, n int)", 1, 2, func(src, dst Mem) {
			w.VCVTPH2PS(src, w.Reg(0))
			w.VMOVUPS(w.Reg(0), dst)
		})
		convert(w, "widenBF16", "func(dst *float32, src *uint16, n int)", 1, 2, func(src, dst Mem) {
			w.VPMOVZXWD(src, w.Reg(0))
			w.VPSLLD(Imm(16), w.Reg(0), w.Reg(0))
			w.VMOVUPS(w.Reg(0), dst)
		})
	}
}

// convert loops over vectors; the shares say what part of a vector's bytes either side takes.
func convert(w emit.Width, name, signature string, dstShare, srcShare int, body func(src, dst Mem)) {
	w.Func(name+w.Suffix(), signature, name+w.Suffix()+" converts n vectors.")
	dst, src, n := w.Arg("dst", RDI), w.Arg("src", RSI), w.Arg("n", RCX)
	w.Label("loop")
	body(emit.At(src, 0), emit.At(dst, 0))
	w.Advance(dst, w.Bytes/dstShare)
	w.Advance(src, w.Bytes/srcShare)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// narrowBF16 rounds to nearest, ties to even; NaN stays NaN.
func narrowBF16(w emit.Width, src, dst Mem) {
	x, y, nan := w.Reg(0), w.Reg(1), w.Reg(2)
	w.VMOVUPS(src, x)
	w.VPSRLD(Imm(16), x, y)
	w.Or(w.RepeatBits("quiet", 0x40), y, nan)
	w.And(w.RepeatBits("odd", 1), y, y)
	w.VPADDD(w.RepeatBits("half", 0x7fff), y, y)
	w.VPADDD(x, y, y)
	w.VPSRLD(Imm(16), y, y)
	if w.AVX512() {
		w.VCMPPS(Imm(3), x, x, K1)
		w.VMOVDQA32(nan, K1, y)
		w.VPMOVDW(y, dst)
		return
	}
	w.VCMPPS(Imm(3), x, x, x)
	w.VBLENDVPS(x, nan, y, y)
	w.VPACKUSDW(y, y, y)
	w.VPERMQ(Imm(0b1000), y, y)
	w.VMOVDQU(y.AsX(), dst)
}
