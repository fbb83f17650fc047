package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// ahead is how far in front of the codes that are decoded memory is prefetched: pages end the processor's own prefetching, and 1,024 bytes are read
// before they come.
const ahead = 4096

// expansions write the decoding of rows whose codes stand for floats to float32, with the roundings of package quant.
func expansions(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		shifts := upperShifts(w)
		for _, dot := range []bool{false, true} {
			expandE4M3(w, dot, 0)
			expandE4M3(w, dot, 128)
			expandInt8(w, dot)
			expandUint8(w, dot)
		}
		expandCodebook(w)
		expandNVFP4(w, shifts)
		wordProducts(w)
	}
}

// expander is a function that takes n steps over src, of some bytes each: it writes some numbers to dst in each. Or it is a product of rows: it multiplies
// the numbers with those that are there instead.
type expander struct {
	emit.Width
	dot            bool
	name, doc      string
	arguments      string // behind dst, src and n, or of a product behind stride
	result         string // of what is no dot product: not 0 if there was a NaN
	bytes, numbers int
	scaled         bool // rows have one scale for all of them, behind them
	nan            bool // the registers most and least of a row are looked at behind it
}

// sums are the registers of a dot product: two of a block, whose scale the sums are multiplied with as they go to the others.
var sums = [4]int{6, 7, 14, 15}

// number is what becomes of vector i of a block, the numbers from at on: times scale, or times the numbers at dst, without it.
func (w expander) number(v, scale VecPhysical, dst GPPhysical, at, i int) {
	switch {
	case !w.dot:
		w.VMULPS(scale, v, v)
		w.VMOVUPS(v, emit.At(dst, 4*at))
	case w.scaled:
		w.VFMADD231PS(emit.At(dst, 4*at), v, w.Reg(sums[i%4]))
	case i < 2:
		w.VMULPS(emit.At(dst, 4*at), v, w.Reg(sums[i]))
	default:
		w.VFMADD231PS(emit.At(dst, 4*at), v, w.Reg(sums[i%2]))
	}
}

// blockEnd adds the sums [from, to) of a block, times its scale.
func (w expander) blockEnd(scale Op, from, to int) {
	if w.dot {
		for i := from; i < to; i++ {
			w.VFMADD231PS(scale, w.Reg(sums[i]), w.Reg(sums[2+i]))
		}
	}
}

// write makes the function: start once, body in every step, end behind the last, which leaves in RAX what is not 0 if there was a NaN.
func (w expander) write(start func(), body func(dst, src GPPhysical), end func()) {
	if w.dot {
		w.rows(start, body, end)
		return
	}
	name := "expand" + w.name + w.Suffix()
	w.Func(name, "func(dst *float32, src *byte, n int"+w.arguments+") "+w.result, name+" expands n "+w.doc)
	dst, src, n := w.Arg("dst", RDI), w.Arg("src", RSI), w.Arg("n", RCX)
	start()
	w.steps(dst, src, n, w.bytes, 4*w.numbers, body)
	end()
	if w.result != "" {
		w.Store(RAX, w.ReturnIndex(0))
	}
	w.VZEROUPPER()
	w.RET()
}

// rows makes a product of rows.
func (w expander) rows(start func(), body func(dst, src GPPhysical), end func()) {
	name := "dot" + w.name + w.Suffix()
	r := beginRows(w.Width, name, "*float32", w.doc+" with the numbers at x", w.arguments)
	start()
	r.begin()
	if w.nan {
		w.Zero(w.Reg(most))
		w.Zero(w.Reg(least))
	}
	all := sums[:]
	for _, i := range all {
		w.Zero(w.Reg(i))
	}
	w.steps(r.at, r.src, r.left, w.bytes, 4*w.numbers, body)
	end()
	if !w.scaled {
		all = sums[2:] // the others are of the last block, and have been added
	}
	w.VADDPS(w.Reg(all[0]), w.Reg(all[1]), w.Reg(0))
	for _, i := range all[2:] {
		w.VADDPS(w.Reg(i), w.Reg(0), w.Reg(0))
	}
	w.ReduceLanes(w.VADDPS, 0, 1)
	if w.scaled {
		w.VMULSS(r.behind(), X0, X0)
	}
	if w.nan {
		w.TESTQ(RAX, RAX)
		w.JZ(LabelRef("numbers"))
		w.VPCMPEQD(X0, X0, X0)
		w.Label("numbers")
	}
	r.end()
}

// steps are n times body, with two pointers that move on.
func (w expander) steps(dst, src, n GPPhysical, bytes, dstBytes int, body func(dst, src GPPhysical)) {
	w.Label("loop")
	for line := 0; line < bytes; line += 64 {
		w.PREFETCHT0(emit.At(src, ahead+line))
	}
	body(dst, src)
	w.Advance(src, bytes)
	w.Advance(dst, dstBytes)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
}

// lanes is the float32 of a vector.
func lanes(w emit.Width) int { return w.Bytes / 4 }

// most and least are the registers of the largest codes, as signed and as unsigned bytes.
const most, least = 12, 13

// expandE4M3 writes steps of 64 numbers under a scale that is an argument, or blocks that begin with theirs. A code moved to the place of half
// floats' exponents is a half float of a 256th, those below the normal ones too; but NaN is not: whether there was any is the result.
func expandE4M3(w emit.Width, dot bool, block int) {
	e := expander{Width: w, dot: dot, name: "FP8", doc: "steps of 64 e4m3 numbers; NaN shows in the result.", arguments: ", d float32", result: "uint64", bytes: 64, numbers: 64, scaled: true, nan: true}
	head := 0
	if block > 0 {
		e.name, e.doc, e.arguments, e.scaled = "FP8Block", "blocks of a scale and 128 e4m3 numbers; NaN shows in the result.", "", false
		e.numbers, e.bytes, head = block, block+4, 4
	}
	if dot {
		e.arguments = ""
	}
	scale, by, most, least := w.Reg(8), w.Reg(10), w.Reg(most), w.Reg(least)
	e.write(func() {
		w.Move(w.RepeatBits("halfCodes", 0xbf80bf80), w.Reg(9))
		w.Move(w.Repeat("e4m3Halves", 256), by)
		if block == 0 && !dot {
			w.Broadcast("d", scale)
			w.VMULPS(by, scale, scale)
		}
		if !dot {
			w.Zero(most)
			w.Zero(least)
		}
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
			i := at / lanes(w)
			half := w.Half(i % 4)
			w.VPMOVSXBW(emit.At(src, head+at), half)
			w.VPSLLW(Imm(7), half, half)
			w.VPAND(w.Half(9), half, half)
			w.VCVTPH2PS(half, w.Reg(i%4))
			e.number(w.Reg(i%4), scale, dst, at, i)
		}
		if block > 0 {
			e.blockEnd(scale, 0, 2)
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
		if dot && block == 0 {
			for _, i := range sums {
				w.VMULPS(by, w.Reg(i), w.Reg(i))
			}
		}
	})
}

// expandInt8 writes steps of 64 signed bytes under one scale.
func expandInt8(w emit.Width, dot bool) {
	e := expander{Width: w, dot: dot, name: "Int8", doc: "steps of 64 signed bytes", arguments: ", d float32", bytes: 64, numbers: 64, scaled: true}
	if dot {
		e.arguments = ""
	}
	e.write(func() {
		if !dot {
			w.Broadcast("d", w.Reg(8))
		}
	}, func(dst, src GPPhysical) {
		for at := 0; at < e.numbers; at += lanes(w) {
			i := at / lanes(w)
			v := w.Reg(i % 4)
			w.VPMOVSXBD(emit.At(src, at), v)
			w.VCVTDQ2PS(v, v)
			e.number(v, w.Reg(8), dst, at, i)
		}
	}, func() {})
}

// expandUint8 writes blocks of 32 bytes under a scale and a zero point.
func expandUint8(w emit.Width, dot bool) {
	e := expander{Width: w, dot: dot, name: "Uint8", doc: "blocks in quant.UINT8", bytes: 36, numbers: 32}
	scale, zero := w.Reg(8), w.Reg(9)
	e.write(func() {}, func(dst, src GPPhysical) {
		for i := range 2 {
			w.VPBROADCASTW(emit.At(src, 2*i), w.Half(8+i))
			w.VCVTPH2PS(w.Half(8+i), w.Reg(8+i))
		}
		for at := 0; at < e.numbers; at += lanes(w) {
			i := at / lanes(w)
			v := w.Reg(i)
			w.VPMOVZXBD(emit.At(src, 4+at), v)
			w.VCVTDQ2PS(v, v)
			w.VSUBPS(zero, v, v)
			e.number(v, scale, dst, at, i)
		}
		e.blockEnd(scale, 0, 2)
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
	e := expander{Width: w, name: "Codebook", doc: "blocks in quant.NF4 or FP4", arguments: ", table *float32", bytes: 36, numbers: 64}
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
				e.number(v, scale, dst, 32*(at/16)+at%16+16*i, 0)
			}
		}
	}, func() {})
}

// expandNVFP4 writes steps of four blocks of a scale in e4m3 and 16 numbers of four bits, the first eight of them in the low halves of bytes.
func expandNVFP4(w emit.Width, shifts Mem) {
	e := expander{Width: w, name: "NVFP4", doc: "steps of four blocks of quant.NVFP4_ROW: codes by a table of 16 numbers, scales by one of 256 pairs",
		arguments: ", table, scales *float32, d float32", bytes: 36, numbers: 64}
	book, scale, row := codebook{w, w.Reg(8), w.Reg(9)}, w.Reg(10), w.Reg(11)
	scales := RBX
	e.write(func() {
		book.load(w.Arg("table", RDX))
		w.Arg("scales", scales)
		w.Broadcast("d", row)
		if w.AVX512() {
			w.Move(shifts, w.Reg(12))
		}
	}, func(dst, src GPPhysical) {
		for b := range 4 {
			w.MOVBLZX(emit.At(src, 9*b), EAX)
			w.VBROADCASTSS(emit.Indexed(scales, RAX, 8, 0), scale)
			w.VMULPS(row, scale, scale)
			if w.AVX512() {
				w.VPBROADCASTQ(emit.At(src, 9*b+1), X0)
				w.VPMOVZXBD(X0, w.Reg(0))
				w.VPSRLVD(w.Reg(12), w.Reg(0), w.Reg(0))
				book.look(w.Reg(0), w.Reg(2), w.Reg(4))
				e.number(w.Reg(2), scale, dst, 16*b, 0)
				continue
			}
			w.VPMOVZXBD(emit.At(src, 9*b+1), w.Reg(0))
			w.VPSRLD(Imm(4), w.Reg(0), w.Reg(1))
			for i := range 2 {
				book.look(w.Reg(i), w.Reg(2+i), w.Reg(4+i))
				e.number(w.Reg(2+i), scale, dst, 16*b+8*i, 0)
			}
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
