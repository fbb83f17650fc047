package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// ahead is how far in front of the codes that are decoded memory is prefetched: pages end the processor's own prefetching.
const ahead = 1024

// expansions write the decoding of rows whose codes stand for floats to float32, with the roundings of package quant.
func expansions(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		expandE4M3(w, "expandFP8", "func(dst *float32, src *byte, n int, d float32) (ret uint64)", 0)
		expandE4M3(w, "expandFP8Block", "func(dst *float32, src *byte, n int) (ret uint64)", 128)
		expandInt8(w)
		expandUint8(w)
		expandCodebook(w)
		expandNVFP4(w)
	}
}

func (w expander) registers() (dst, src, n GPPhysical) {
	return w.Arg("dst", RDI), w.Arg("src", RSI), w.Arg("n", RCX)
}

// expander is a function that takes n steps over src, of some bytes each, and writes some numbers to dst.
type expander struct {
	emit.Width
	name, signature, doc string
	bytes, numbers       int
}

// write makes the function: start once, body in every step, end behind the last.
func (w expander) write(start func(), body func(dst, src GPPhysical), end func()) {
	w.Func(w.name+w.Suffix(), w.signature, w.name+w.Suffix()+" "+w.doc)
	dst, src, n := w.registers()
	start()
	w.Label("loop")
	for line := 0; line < w.bytes; line += 64 {
		w.PREFETCHT0(emit.At(src, ahead+line))
	}
	body(dst, src)
	w.Advance(src, w.bytes)
	w.Advance(dst, 4*w.numbers)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	end()
	w.VZEROUPPER()
	w.RET()
}

// lanes is the float32 of a vector.
func lanes(w emit.Width) int { return w.Bytes / 4 }

// expandE4M3 writes steps of 64 numbers under a scale that is an argument, or blocks that begin with theirs. A code moved to the place of half
// floats' exponents is a half float of a 256th, those below the normal ones too; but NaN is not: whether there was any is the result.
func expandE4M3(w emit.Width, name, signature string, block int) {
	e := expander{w, name, signature, "expands n steps of 64 e4m3 numbers; the result is not 0 if any is NaN.", 64, 64}
	head := 0
	if block > 0 {
		e.doc, e.numbers, e.bytes, head = "expands n blocks of a scale and 128 e4m3 numbers; the result is not 0 if any is NaN.", block, block+4, 4
	}
	scale, by, most, least := w.Reg(8), w.Reg(10), w.Reg(12), w.Reg(13)
	e.write(func() {
		w.Move(w.RepeatBits("halfCodes", 0xbf80bf80), w.Reg(9))
		w.Move(w.Repeat("e4m3Halves", 256), by)
		if block == 0 {
			w.Broadcast("d", scale)
			w.VMULPS(by, scale, scale)
		}
		w.Zero(most)
		w.Zero(least)
	}, func(dst, src GPPhysical) {
		if block > 0 {
			w.VBROADCASTSS(emit.At(src, 0), scale)
			w.VMULPS(by, scale, scale)
		}
		for at := 0; at < e.numbers; at += w.Bytes {
			w.VPMAXSB(emit.At(src, head+at), most, most)
			w.VPMAXUB(emit.At(src, head+at), least, least)
		}
		for at := 0; at < e.numbers; at += lanes(w) {
			v := at / lanes(w) % 4
			half := w.Half(v)
			w.VPMOVSXBW(emit.At(src, head+at), half)
			w.VPSLLW(Imm(7), half, half)
			w.VPAND(w.Half(9), half, half)
			w.VCVTPH2PS(half, w.Reg(v))
			w.VMULPS(scale, w.Reg(v), w.Reg(v))
			w.VMOVUPS(w.Reg(v), emit.At(dst, 4*at))
		}
	}, func() {
		nan, minus := w.RepeatBits("nan", 0x7f7f7f7f), w.RepeatBits("minusNaN", 0xffffffff)
		if w.AVX512() {
			w.VPCMPEQB(nan, most, K1)
			w.VPCMPEQB(minus, least, K2)
			w.KORQ(K1, K2, K1)
			w.KMOVQ(K1, RAX)
		} else {
			w.VPCMPEQB(nan, most, most)
			w.VPCMPEQB(minus, least, least)
			w.VPOR(least, most, most)
			w.VPMOVMSKB(most, EAX)
		}
		w.Store(RAX, w.ReturnIndex(0))
	})
}

// expandInt8 writes steps of 16 signed bytes under one scale.
func expandInt8(w emit.Width) {
	e := expander{w, "expandInt8", "func(dst *float32, src *byte, n int, d float32)", "expands n steps of 16 signed bytes.", 16, 16}
	e.write(func() { w.Broadcast("d", w.Reg(8)) }, func(dst, src GPPhysical) {
		for at := 0; at < e.numbers; at += lanes(w) {
			v := w.Reg(at / lanes(w))
			w.VPMOVSXBD(emit.At(src, at), v)
			w.VCVTDQ2PS(v, v)
			w.VMULPS(w.Reg(8), v, v)
			w.VMOVUPS(v, emit.At(dst, 4*at))
		}
	}, func() {})
}

// expandUint8 writes blocks of 32 bytes under a scale and a zero point.
func expandUint8(w emit.Width) {
	e := expander{w, "expandUint8", "func(dst *float32, src *byte, n int)", "expands n blocks in quant.UINT8.", 36, 32}
	scale, zero := w.Reg(8), w.Reg(9)
	e.write(func() {}, func(dst, src GPPhysical) {
		for i := range 2 {
			w.VPBROADCASTW(emit.At(src, 2*i), w.Half(8+i))
			w.VCVTPH2PS(w.Half(8+i), w.Reg(8+i))
		}
		for at := 0; at < e.numbers; at += lanes(w) {
			v := w.Reg(at / lanes(w))
			w.VPMOVZXBD(emit.At(src, 4+at), v)
			w.VCVTDQ2PS(v, v)
			w.VSUBPS(zero, v, v)
			w.VMULPS(scale, v, v)
			w.VMOVUPS(v, emit.At(dst, 4*at))
		}
	}, func() {})
}

// codebook holds a table of 16 float32, in one register with AVX-512 and in two with AVX2.
type codebook struct {
	emit.Width
	low, high VecPhysical
}

func (c codebook) load(table GPPhysical) {
	c.VMOVUPS(emit.At(table, 0), c.low)
	if !c.AVX512() {
		c.VMOVUPS(emit.At(table, 32), c.high)
	}
}

// look makes dst of the codes in the lowest four bits of the words of codes; what is above them is ignored. t is overwritten.
func (c codebook) look(codes, dst, t VecPhysical) {
	if c.AVX512() {
		c.VPERMPS(c.low, codes, dst)
		return
	}
	c.VPSLLD(Imm(28), codes, t)
	c.VPERMPS(c.low, codes, dst)
	c.VPERMPS(c.high, codes, codes)
	c.VBLENDVPS(t, codes, dst, dst)
}

// expandCodebook writes blocks in NF4 and FP4: twice 32 numbers of four bits, the first 16 of them in the low halves of bytes.
func expandCodebook(w emit.Width) {
	e := expander{w, "expandCodebook", "func(dst *float32, src *byte, n int, table *float32)", "expands n blocks in quant.NF4 or FP4.", 36, 64}
	book, scale := codebook{w, w.Reg(8), w.Reg(9)}, w.Reg(10)
	e.write(func() { book.load(w.Arg("table", RDX)) }, func(dst, src GPPhysical) {
		w.VBROADCASTSS(emit.At(src, 0), scale)
		for at := 0; at < 32; at += lanes(w) {
			low, high := w.Reg(0), w.Reg(1)
			w.VPMOVZXBD(emit.At(src, 4+at), low)
			w.VPSRLD(Imm(4), low, high)
			for i, codes := range []VecPhysical{low, high} {
				v := w.Reg(2 + i)
				book.look(codes, v, w.Reg(4+i))
				w.VMULPS(scale, v, v)
				w.VMOVUPS(v, emit.At(dst, 128*(at/16)+4*(at%16)+64*i))
			}
		}
	}, func() {})
}

// expandNVFP4 writes blocks of a scale in e4m3 and 16 numbers of four bits, the first eight of them in the low halves of bytes.
func expandNVFP4(w emit.Width) {
	e := expander{w, "expandNVFP4", "func(dst *float32, src *byte, n int, table, scales *float32, d float32)",
		"expands n blocks of quant.NVFP4_ROW: codes by a table of 16 numbers, scales by one of 256.", 9, 16}
	book, scale, row := codebook{w, w.Reg(8), w.Reg(9)}, w.Reg(10), w.Reg(11)
	scales := RBX
	e.write(func() {
		book.load(w.Arg("table", RDX))
		w.Arg("scales", scales)
		w.Broadcast("d", row)
		if w.AVX512() {
			w.Move(upperShifts(w), w.Reg(12))
		}
	}, func(dst, src GPPhysical) {
		w.MOVBLZX(emit.At(src, 0), EAX)
		w.VBROADCASTSS(emit.Indexed(scales, RAX, 4, 0), scale)
		w.VMULPS(row, scale, scale)
		if w.AVX512() {
			w.VPBROADCASTQ(emit.At(src, 1), X0)
			w.VPMOVZXBD(X0, w.Reg(0))
			w.VPSRLVD(w.Reg(12), w.Reg(0), w.Reg(0))
			book.look(w.Reg(0), w.Reg(2), w.Reg(4))
			w.VMULPS(scale, w.Reg(2), w.Reg(2))
			w.VMOVUPS(w.Reg(2), emit.At(dst, 0))
			return
		}
		w.VPMOVZXBD(emit.At(src, 1), w.Reg(0))
		w.VPSRLD(Imm(4), w.Reg(0), w.Reg(1))
		for i := range 2 {
			book.look(w.Reg(i), w.Reg(2+i), w.Reg(4+i))
			w.VMULPS(scale, w.Reg(2+i), w.Reg(2+i))
			w.VMOVUPS(w.Reg(2+i), emit.At(dst, 32*i))
		}
	}, func() {})
}

// upperShifts shifts the upper eight lanes down by four bits.
func upperShifts(w emit.Width) Mem {
	m := w.Constant("upperShifts")
	for i := range lanes(w) {
		w.AddDatum(4*i, U32(4*(i/8)))
	}
	return m
}
