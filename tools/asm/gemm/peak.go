package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

var zmm = [32]VecPhysical{
	Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
}

var ymm = [16]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// peak writes loops that do nothing but issue one instruction, so that kernels can be reported as a fraction of what
// the core can do in the same minute, and a loop that only reads.
func peak(a *emit.Asm) {
	// Enough independent accumulators to hide any latency on two ports.
	loop := func(name, doc string, dst []VecPhysical, step func(d VecPhysical)) {
		a.Func(name, "func(n int)", doc)
		n := a.Arg("n", RCX)
		a.VZEROALL()
		for _, d := range dst[8:] {
			a.VMOVAPS(dst[0], d)
		}
		a.Label("loop")
		for _, d := range dst {
			step(d)
		}
		a.SUBQ(Imm(1), n)
		a.JNZ(LabelRef("loop"))
		a.VZEROUPPER()
		a.RET()
	}
	zmms, ymms := zmm[:24], ymm[:12]
	loop("peakDotZ", "peakDotZ issues 24 n 512-bit VPDPBUSD.", zmms, func(d VecPhysical) { a.VPDPBUSD(Z31, Z30, d) })
	loop("peakFMAZ", "peakFMAZ issues 24 n 512-bit VFMADD231PS.", zmms, func(d VecPhysical) { a.VFMADD231PS(Z31, Z30, d) })
	loop("peakBF16Z", "peakBF16Z issues 24 n 512-bit VDPBF16PS.", zmms, func(d VecPhysical) { a.VPDPBF16PS(Z31, Z30, d) })
	loop("peakDotY", "peakDotY issues 12 n 256-bit VEX VPDPBUSD.", ymms, func(d VecPhysical) { a.VPDPBUSDVex(Y15, Y14, d) })
	loop("peakMaddY", "peakMaddY issues 12 n 256-bit VPMADDUBSW.", ymms, func(d VecPhysical) { a.VPMADDUBSW(Y15, Y14, d) })
	loop("peakFMAY", "peakFMAY issues 12 n 256-bit VFMADD231PS.", ymms, func(d VecPhysical) { a.VFMADD231PS(Y15, Y14, d) })

	a.Func("peakReadZ", "func(p *byte, lines int)", "peakReadZ reads lines × 64 bytes from p, eight lines at a time.")
	p, n := a.Arg("p", RAX), a.Arg("lines", RCX)
	a.Label("loop")
	for i := range 8 {
		a.PREFETCHT0(emit.At(p, i*64+4096))
		a.VMOVDQU64(emit.At(p, i*64), zmm[i])
	}
	a.Advance(p, 512)
	a.SUBQ(Imm(8), n)
	a.JG(LabelRef("loop"))
	a.VZEROUPPER()
	a.RET()

	a.Func("peakReadY", "func(p *byte, lines int)", "peakReadY is peakReadZ with 256-bit loads.")
	p, n = a.Arg("p", RAX), a.Arg("lines", RCX)
	a.Label("loop")
	for i := range 8 {
		a.PREFETCHT0(emit.At(p, i*64+4096))
		a.VMOVDQU(emit.At(p, i*64), ymm[2*i])
		a.VMOVDQU(emit.At(p, i*64+32), ymm[2*i+1])
	}
	a.Advance(p, 512)
	a.SUBQ(Imm(8), n)
	a.JG(LabelRef("loop"))
	a.VZEROUPPER()
	a.RET()
}
