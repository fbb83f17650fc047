package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// element is a float format of weights as the row kernels read it: bytes of a number, and how a vector of them becomes
// float32.
type element struct {
	name  string
	bytes int
	load  func(w emit.Width, m Mem, dst VecPhysical)
}

var elements = []element{
	{"F32", 4, func(w emit.Width, m Mem, dst VecPhysical) { w.VMOVUPS(m, dst) }},
	{"F16", 2, func(w emit.Width, m Mem, dst VecPhysical) { w.VCVTPH2PS(m, dst) }},
	{"BF16", 2, func(w emit.Width, m Mem, dst VecPhysical) {
		w.VPMOVZXWD(m, dst)
		w.VPSLLD(Imm(16), dst, dst)
	}},
}

// rows writes the kernels for few rows of activations: vectors run along k in the weights' own row-major layout, so
// nothing is packed, and every weight is read once.
func rows(w emit.Width, most int) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		for _, e := range elements {
			rowKernel(w, e, 1, 1)
			for acts := 1; acts <= most; acts++ {
				rowKernel(w, e, 4, acts)
			}
		}
	}
}

// nextRows points at the next four rows of weights, at the current column: four streams that are prefetched
// across page boundaries, where the hardware prefetcher stops.
var nextRows = R11

func rowKernel(w emit.Width, e element, rows, acts int) {
	name := fmt.Sprintf("rows%sx%dx%d%s", e.name, rows, acts, w.Suffix())
	w.Func(name, "func(out *float32, ld int, w *byte, wStride int, act *byte, stride int, n int)",
		fmt.Sprintf("%s adds the products of %d rows of weights and %d of activations, n vectors long, to out.", name, rows, acts))
	weights, wStride := w.Arg("w", RAX), w.Arg("wStride", RBX)
	act, stride := w.Arg("act", RDX), w.Arg("stride", RCX)
	n := w.Arg("n", R8)
	actAt := rowAddresses(w, acts, act, stride)
	if rows > 3 {
		w.LEAQ(Mem{Base: wStride, Index: wStride, Scale: 2}, R12)
		w.LEAQ(Mem{Base: weights, Index: wStride, Scale: 4}, nextRows)
	}
	weightAt := []Mem{
		emit.At(weights, 0), emit.Indexed(weights, wStride, 1, 0), emit.Indexed(weights, wStride, 2, 0), emit.Indexed(weights, R12, 1, 0),
	}
	firstAct, weight := 24, 30
	if !w.AVX512() {
		firstAct, weight = 12, 15
	}
	sum := func(r, a int) VecPhysical { return w.Reg(r*acts + a) }
	for i := range rows * acts {
		w.Zero(w.Reg(i))
	}
	w.Label("loop")
	for a := range acts {
		w.VMOVUPS(actAt[a], w.Reg(firstAct+a))
	}
	for r := range rows {
		e.load(w, weightAt[r], w.Reg(weight))
		if acts == 1 {
			w.PREFETCHT0(weightAt[r].Offset(1024))
		}
		if rows > 3 {
			next := weightAt[r]
			next.Base = nextRows
			w.PREFETCHT1(next)
		}
		for a := range acts {
			w.VFMADD231PS(w.Reg(firstAct+a), w.Reg(weight), sum(r, a))
		}
	}
	w.Advance(weights, e.bytes*w.Bytes/4)
	if rows > 3 {
		w.Advance(nextRows, e.bytes*w.Bytes/4)
	}
	w.Advance(act, w.Bytes)
	if acts > 5 {
		w.Advance(sixthRow, w.Bytes)
	}
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	out, ld := w.Arg("out", RDI), w.Arg("ld", RSI)
	for a := range acts {
		for r := range rows {
			addAcross(w, r*acts+a, emit.At(out, 4*r))
		}
		if a+1 < acts {
			w.ADDQ(ld, out)
		}
	}
	w.VZEROUPPER()
	w.RET()
}

// addAcross adds the lanes of register i to the float at m; it uses the two last registers.
func addAcross(w emit.Width, i int, m Mem) {
	half, t, u := 14, w.Quarter(14), w.Quarter(15)
	if w.AVX512() {
		half, t, u = 30, w.Quarter(30), w.Quarter(31)
		w.VEXTRACTF64X4(Imm(1), w.Reg(i), w.Half(half))
		w.VADDPS(w.Half(half), w.Half(i), w.Half(half))
		w.VEXTRACTF32X4(Imm(1), w.Half(half), u)
		w.VADDPS(u, t, t)
	} else {
		w.VEXTRACTF128(Imm(1), w.Reg(i), t)
		w.VADDPS(t, w.Quarter(i), t)
	}
	w.VPERMILPS(Imm(0b1110), t, u)
	w.VADDPS(u, t, t)
	w.VPERMILPS(Imm(1), t, u)
	w.VADDSS(u, t, t)
	w.VADDSS(m, t, t)
	w.VMOVSS(t, m)
}
