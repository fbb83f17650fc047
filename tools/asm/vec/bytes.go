package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// rowBytes write what makes signed bytes of rows in four-bit formats, and their scales, in AVX2 for vectors of either size: for panels that are multiplied in
// integers. A step is 64 numbers in 36 bytes.
func rowBytes(a *emit.Asm) {
	w := emit.Width{Asm: a, Bytes: 32}
	bytesCodebook(w)
	bytesNVFP4(w)
}

// begin starts one, with the table of values in Y8 and halves of bytes in Y9.
func beginBytes(w emit.Width, name, doc, arguments string) (codes, scales, src, n GPPhysical) {
	w.Func(name, "func(codes *byte, scales *float32, src *byte, n int, table *byte"+arguments+")", name+" makes signed bytes and scales of n "+doc)
	codes, scales, src, n = w.Arg("codes", RDI), w.Arg("scales", RDX), w.Arg("src", RSI), w.Arg("n", RCX)
	w.VBROADCASTI128(emit.At(w.Arg("table", RBX), 0), Y8)
	w.Move(w.RepeatBits("byteNibbles", 0x0f0f0f0f), Y9)
	return codes, scales, src, n
}

// look makes values of the codes in the lower halves of the bytes of register 0, in register 0, and of those in the upper halves, in register 1.
func look(w emit.Width) {
	w.VPSRLW(Imm(4), Y0, Y1)
	for _, r := range []VecPhysical{Y0, Y1} {
		w.And(Y9, r, r)
		w.VPSHUFB(r, Y8, r)
	}
}

// storeHalves stores the lower halves of two registers, and then the upper ones.
func storeHalves(w emit.Width, first, second VecPhysical, to GPPhysical) {
	for half, order := range []uint64{0x20, 0x31} {
		w.VPERM2I128(Imm(order), second, first, Y2)
		w.Move(Y2, emit.At(to, 32*half))
	}
}

func endBytes(w emit.Width, codes, scales, src, n GPPhysical, scaleBytes int) {
	w.Advance(src, 36)
	w.Advance(codes, 64)
	w.Advance(scales, scaleBytes)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// bytesCodebook takes blocks in NF4 and FP4: twice 32 numbers, the first 16 of them in the low halves of bytes, behind their scale, of which the value 127 is all.
func bytesCodebook(w emit.Width) {
	codes, scales, src, n := beginBytes(w, "bytesCodebook", "blocks in quant.NF4 or FP4, a scale for 32 numbers.", "")
	w.Label("loop")
	w.VMOVSS(emit.At(src, 0), X3)
	w.VMULSS(w.Repeat("byte127th", 1./127), X3, X3)
	for i := range 2 {
		w.VMOVSS(X3, emit.At(scales, 4*i))
	}
	w.Move(emit.At(src, 4), Y0)
	look(w)
	storeHalves(w, Y0, Y1, codes)
	endBytes(w, codes, scales, src, n, 8)
}

// bytesNVFP4 takes four blocks of quant.NVFP4_ROW at a time: a scale in e4m3 and 16 numbers, the first eight of them in the low halves of bytes.
func bytesNVFP4(w emit.Width) {
	codes, scales, src, n := beginBytes(w, "bytesNVFP4", "steps of four blocks of quant.NVFP4_ROW, a scale for 16 numbers: d times one of 256 pairs.", ", e4m3 *float32, d float32")
	pairs := w.Arg("e4m3", R8)
	w.VBROADCASTSS(w.Slot("d"), X4)
	w.Label("loop")
	for b := range 4 {
		w.MOVBLZX(emit.At(src, 9*b), EAX)
		w.VMOVSS(emit.Indexed(pairs, RAX, 8, 0), X3)
		w.VMULSS(X4, X3, X3)
		w.VMOVSS(X3, emit.At(scales, 4*b))
	}
	for i, x := range []VecPhysical{X0, X1} {
		w.VMOVQ(emit.At(src, 18*i+1), x)
		w.VPINSRQ(Imm(1), emit.At(src, 18*i+10), x, x)
	}
	w.VINSERTI128(Imm(1), X1, Y0, Y0)
	look(w)
	w.VPUNPCKLQDQ(Y1, Y0, Y3)
	w.VPUNPCKHQDQ(Y1, Y0, Y1)
	storeHalves(w, Y3, Y1, codes)
	endBytes(w, codes, scales, src, n, 16)
}
