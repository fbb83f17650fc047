package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// int4Kernel writes the conversion of codes of four bits to float32: see int4Func of package attn.
func int4Kernel(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		name := "unpackInt4" + w.Suffix()
		w.Func(name, "func(dst *float32, codes *byte, ranges *uint16, n, step, second, next int)",
			name+" converts n times 16 bytes of codes, each with its scale and minimum.")
		dst, codes, ranges := w.Arg("dst", RDI), w.Arg("codes", RSI), w.Arg("ranges", RBX)
		n, step, second := w.Arg("n", RCX), w.Arg("step", RDX), w.Arg("second", RAX)
		next := w.Arg("next", R8)
		w.ADDQ(dst, second)
		low, scale, minimum := w.Reg(0), w.Reg(1), w.Reg(2)
		w.Move(w.FixedWords("lowBits", 15), low)
		w.Label("loop")
		w.PREFETCHT0(emit.Indexed(codes, next, 1, 0))
		w.PREFETCHT0(emit.Indexed(ranges, next, 1, 0))
		w.VMOVD(emit.At(ranges, 0), X3)
		w.VCVTPH2PS(X3, X3)
		w.VBROADCASTSS(X3, scale)
		w.VPSRLDQ(Imm(4), X3, X3)
		w.VBROADCASTSS(X3, minimum)
		lanes := w.Bytes / 4
		for i := range 16 / lanes {
			lower, upper := w.Reg(4+2*i), w.Reg(5+2*i)
			w.VPMOVZXBD(emit.At(codes, i*lanes), upper)
			w.And(low, upper, lower)
			w.VPSRLD(Imm(4), upper, upper)
			for half, at := range []GPPhysical{dst, second} {
				x := w.Reg(4 + 2*i + half)
				w.VCVTDQ2PS(x, x)
				w.VFMADD213PS(minimum, scale, x)
				w.VMOVUPS(x, emit.At(at, i*w.Bytes))
			}
		}
		w.Advance(codes, 16)
		w.Advance(ranges, 4)
		w.ADDQ(step, dst)
		w.ADDQ(step, second)
		w.DECQ(n)
		w.JNZ(LabelRef("loop"))
		w.VZEROUPPER()
		w.RET()
	}
}
