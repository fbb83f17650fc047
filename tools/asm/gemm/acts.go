package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// acts writes the kernels that prepare activations, float weights and scales, in AVX2 for both widths: little time is spent in them.
func acts(a *emit.Asm) {
	quantize(a)
	packF16(a)
	prefetchRows(a)
	widen(a, "widenF16", "half floats", func(m Mem, dst VecPhysical) { a.VCVTPH2PS(m, dst) })
	widen(a, "widenBF16", "bfloats", func(m Mem, dst VecPhysical) {
		a.VPMOVZXWD(m, dst)
		a.VPSLLD(Imm(16), dst, dst)
	})
}

func widen(a *emit.Asm, name, what string, load func(Mem, VecPhysical)) {
	a.Func(name, "func(dst *float32, src *byte, n int)", name+" turns 8 n "+what+" into float32.")
	dst, src, n := a.Arg("dst", RDI), a.Arg("src", RSI), a.Arg("n", RCX)
	a.Label("loop")
	load(emit.At(src, 0), Y0)
	a.VMOVUPS(Y0, emit.At(dst, 0))
	a.Advance(src, 16)
	a.Advance(dst, 32)
	a.SUBQ(Imm(1), n)
	a.JNZ(LabelRef("loop"))
	a.VZEROUPPER()
	a.RET()
}

// narrowBF16 writes the conversion of activations for VDPBF16PS.
func narrowBF16(a *emit.Asm) {
	a.Func("narrowBF16", "func(dst *byte, src *float32, n int)", "narrowBF16 rounds 16 n float32 to bf16, ties to even.")
	dst, src, n := a.Arg("dst", RDI), a.Arg("src", RSI), a.Arg("n", RCX)
	a.Label("loop")
	a.VMOVUPS(emit.At(src, 0), Z0)
	a.VCVTNEPS2BF16(Z0, Z1)
	a.VMOVDQU(Y1, emit.At(dst, 0))
	a.Advance(src, 64)
	a.Advance(dst, 32)
	a.SUBQ(Imm(1), n)
	a.JNZ(LabelRef("loop"))
	a.VZEROUPPER()
	a.RET()
}

// quantize turns blocks of 32 float32 into Q8 blocks: 32 signed bytes, their scale, and the sums that the kernels need.
func quantize(a *emit.Asm) {
	repeat := func(name string, v uint32) Mem {
		m := a.Constant(name)
		for i := 0; i < 32; i += 4 {
			a.AddDatum(i, U32(v))
		}
		return m
	}
	positive := repeat("quantPositive", 0x7fffffff)
	ones8, ones16 := repeat("quantOnes8", 0x01010101), repeat("quantOnes16", 0x00010001)
	magic := repeat("quantMagic", 0x4b400000)
	most, part := repeat("quantMost", 0x42fe0000), repeat("quantPart", 0x3c010204) // 127 and 1/127
	order := a.Constant("quantOrder")
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		a.AddDatum(4*i, U32(v))
	}

	a.Func("quantizeQ8", "func(dst *byte, step int, src *float32, n int)", "quantizeQ8 turns n blocks of 32 activations into Q8 blocks of 64 bytes, step bytes apart.")
	dst, step, src, n := a.Arg("dst", RDI), a.Arg("step", RDX), a.Arg("src", RSI), a.Arg("n", RCX)
	a.VMOVDQU(positive, Y15)
	a.VMOVDQU(order, Y14)
	a.VXORPS(X13, X13, X13)
	a.Label("loop")
	quantBytes(a, src, part, most)
	a.VMOVDQU(Y0, emit.At(dst, 0))
	quantSums(a, ones8, ones16, magic)
	a.Advance(src, 128)
	a.ADDQ(step, dst)
	a.SUBQ(Imm(1), n)
	a.JNZ(LabelRef("loop"))
	a.VZEROUPPER()
	a.RET()

	a.Func("roundBytes", "func(codes *byte, scales, src *float32, n int)", "roundBytes turns n blocks of 32 numbers into as many signed bytes as quantizeQ8 does, and scales.")
	codes, scales := a.Arg("codes", RDI), a.Arg("scales", RDX)
	src, n = a.Arg("src", RSI), a.Arg("n", RCX)
	a.VMOVDQU(positive, Y15)
	a.VMOVDQU(order, Y14)
	a.VXORPS(X13, X13, X13)
	a.Label("loop")
	quantBytes(a, src, part, most)
	a.VMOVDQU(Y0, emit.At(codes, 0))
	a.VMOVSS(X6, emit.At(scales, 0))
	a.Advance(src, 128)
	a.Advance(codes, 32)
	a.Advance(scales, 4)
	a.SUBQ(Imm(1), n)
	a.JNZ(LabelRef("loop"))
	a.VZEROUPPER()
	a.RET()
}

// quantBytes leaves the signed bytes of a block in Y0, and what quantScale does.
func quantBytes(a *emit.Asm, src GPPhysical, part, most Mem) {
	in, abs := []VecPhysical{Y0, Y1, Y2, Y3}, []VecPhysical{Y4, Y5, Y6, Y7}
	for i := range in {
		a.VMOVUPS(emit.At(src, 32*i), in[i])
		a.VPAND(in[i], Y15, abs[i])
	}
	quantScale(a, part, most)
	for _, r := range in {
		a.VMULPS(Y5, r, r)
		a.VCVTPS2DQ(r, r)
	}
	a.VPACKSSDW(Y1, Y0, Y0)
	a.VPACKSSDW(Y3, Y2, Y2)
	a.VPACKSSWB(Y2, Y0, Y0)
	a.VPERMD(Y0, Y14, Y0)
}

// quantScale leaves a block's scale in every lane of X6, of the magnitudes in Y4 to Y7, and in those of Y5 what numbers are multiplied by.
func quantScale(a *emit.Asm, part, most Mem) {
	// The largest magnitude, compared as integers so that a NaN wins and shows in the scale.
	a.VPMAXSD(Y5, Y4, Y4)
	a.VPMAXSD(Y7, Y6, Y6)
	a.VPMAXSD(Y6, Y4, Y4)
	a.VEXTRACTI128(Imm(1), Y4, X5)
	a.VPMAXSD(X5, X4, X4)
	a.VPSHUFD(Imm(0b01001110), X4, X5)
	a.VPMAXSD(X5, X4, X4)
	a.VPSHUFD(Imm(0b10110001), X4, X5)
	a.VPMAXSD(X5, X4, X4)
	a.VMULPS(part, X4, X6) // the scale, in every lane; avo's memory operand is 16 bytes here
	a.VMOVUPS(most, X5)
	a.VDIVPS(X4, X5, X5)
	a.VCMPPS(Imm(4), X13, X4, X7) // a block of zeros must not divide by zero
	a.VANDPS(X7, X5, X5)
	a.VBROADCASTSS(X5, Y5)
}

// quantSums writes what stands behind a block's codes, which are in Y0 and their scale in X6: scale, biases, and scale times sums.
func quantSums(a *emit.Asm, ones8, ones16, magic Mem) {
	// Sums of either half of the block, in every lane of X1 and X2, and of the whole in X3.
	a.VMOVDQU(ones8, Y4)
	a.VPMADDUBSW(Y0, Y4, Y0)
	a.VPMADDWD(ones16, Y0, Y0)
	a.VPHADDD(Y0, Y0, Y0)
	a.VPHADDD(Y0, Y0, Y1)
	a.VEXTRACTI128(Imm(1), Y1, X2)
	a.VPADDD(X1, X2, X3)
	// scale, bias, bias of either half
	a.VPBLENDD(Imm(4), X1, X3, X4)
	a.VPBLENDD(Imm(8), X2, X4, X4)
	a.VPSLLD(Imm(7), X4, X4)
	a.VMOVDQU(magic, X5)
	a.VPSUBD(X4, X5, X4)
	a.VPBLENDD(Imm(1), X6, X4, X4)
	a.VMOVDQU(X4, emit.At(RDI, q8Scale))
	// scale × sum, of the whole and of either half
	a.VPBLENDD(Imm(2), X1, X3, X4)
	a.VPBLENDD(Imm(4), X2, X4, X4)
	a.VCVTDQ2PS(X4, X4)
	a.VMULPS(X6, X4, X4)
	a.VMOVDQU(X4, emit.At(RDI, q8Sum))
}

func prefetchRows(a *emit.Asm) {
	a.Func("prefetchRows", "func(p uintptr, stride int, rows int, bytes int)",
		"prefetchRows prefetches rows of bytes, stride apart, into the L2 cache.")
	p, stride, n := a.Arg("p", RSI), a.Arg("stride", RBX), a.Arg("rows", RCX)
	a.Label("row")
	a.MOVQ(p, RAX)
	a.Load(a.Param("bytes"), RDX)
	a.Label("line")
	a.PREFETCHT1(emit.At(RAX, 0))
	a.Advance(RAX, 64)
	a.SUBQ(Imm(64), RDX)
	a.JG(LabelRef("line"))
	a.ADDQ(stride, p)
	a.SUBQ(Imm(1), n)
	a.JNZ(LabelRef("row"))
	a.RET()
}
