package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// rotations write both pairings of RoPE for n whole vectors of numbers; angles are cosine and sine in turn.
func rotations(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		rotateHalf(w)
		rotateAdjacent(w)
	}
}

// rotateHalf rotates the pairs (x[i], x[i+half]).
func rotateHalf(w emit.Width) {
	name := "rotateHalf" + w.Suffix()
	w.Func(name, "func(y, x, angles *float32, half, n int)", name+" rotates n vectors of pairs (x[i], x[i+half]).")
	y, x, angles, half, n := w.Arg("y", RDI), w.Arg("x", RSI), w.Arg("angles", RDX), w.Arg("half", RAX), w.Arg("n", RCX)
	even, odd := w.Reg(10), w.Reg(11)
	if w.AVX512() {
		w.Move(indices(w, "even", 0), even)
		w.Move(indices(w, "odd", 1), odd)
	}
	w.Label("loop")
	p, q, cos, sin, more, t := w.Reg(0), w.Reg(1), w.Reg(2), w.Reg(3), w.Reg(4), w.Reg(5)
	w.VMOVUPS(emit.At(x, 0), p)
	w.VMOVUPS(emit.Indexed(x, half, 4, 0), q)
	w.VMOVUPS(emit.At(angles, 0), cos)
	w.VMOVUPS(emit.At(angles, w.Bytes), more)
	if w.AVX512() {
		w.Move(cos, sin)
		w.VPERMT2PS(more, even, cos)
		w.VPERMT2PS(more, odd, sin)
	} else {
		w.VSHUFPS(Imm(0b11011101), more, cos, sin)
		w.VSHUFPS(Imm(0b10001000), more, cos, cos)
		w.VPERMPD(Imm(0b11011000), cos, cos)
		w.VPERMPD(Imm(0b11011000), sin, sin)
	}
	w.VMULPS(q, sin, t)
	w.VFMSUB231PS(p, cos, t) // p cos - q sin
	w.VMOVUPS(t, emit.At(y, 0))
	w.VMULPS(p, sin, t)
	w.VFMADD231PS(q, cos, t)
	w.VMOVUPS(t, emit.Indexed(y, half, 4, 0))
	w.Advance(x, w.Bytes)
	w.Advance(y, w.Bytes)
	w.Advance(angles, 2*w.Bytes)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// indices are every second lane of two vectors, from lane first on.
func indices(w emit.Width, name string, first int) Mem {
	m := w.Constant(name)
	for i := range w.Bytes / 4 {
		w.AddDatum(4*i, U32(uint32(2*i+first)))
	}
	return m
}

// rotateAdjacent rotates the pairs (x[2i], x[2i+1]).
func rotateAdjacent(w emit.Width) {
	name := "rotateAdjacent" + w.Suffix()
	w.Func(name, "func(y, x, angles *float32, n int)", name+" rotates the pairs (x[2i], x[2i+1]) of n vectors.")
	y, x, angles, n := w.Arg("y", RDI), w.Arg("x", RSI), w.Arg("angles", RDX), w.Arg("n", RCX)
	w.Label("loop")
	w.VMOVUPS(emit.At(x, 0), w.Reg(0))
	w.VMOVUPS(emit.At(angles, 0), w.Reg(1))
	w.VMOVSHDUP(w.Reg(1), w.Reg(2))
	w.VMOVSLDUP(w.Reg(1), w.Reg(1))
	w.VPERMILPS(Imm(0b10110001), w.Reg(0), w.Reg(3))
	w.VMULPS(w.Reg(2), w.Reg(3), w.Reg(3))
	w.VFMADDSUB231PS(w.Reg(1), w.Reg(0), w.Reg(3)) // minus in even lanes, plus in odd ones
	w.VMOVUPS(w.Reg(3), emit.At(y, 0))
	w.Advance(x, w.Bytes)
	w.Advance(y, w.Bytes)
	w.Advance(angles, w.Bytes)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}
