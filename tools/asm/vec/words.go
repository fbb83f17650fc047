package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// Products of rows of four-bit codes with numbers of 16 bits. A step is 8 × lanes numbers of a row: as many bytes of codes as a vector has, whose values
// VPSHUFB makes of both halves and whose products VPMADDWD adds in pairs. The numbers of a step lie as four vectors of words, in the order in which codes are
// taken apart, with a vector behind that begins with their scale.

// wordValues is the largest magnitude of such a number: eight products with words of up to 16383 fit 32 bits.
const wordValues = 16255

// codebookPeak is the word of a codebook that stands for 1.
const codebookPeak = 16383

// roundings write the rounding of numbers to words, in AVX2 for vectors of either size.
func roundings(a *emit.Asm) {
	w := emit.Width{Asm: a, Bytes: 32}
	order := w.Constant("evenFirst")
	for i, lane := range []uint32{0, 2, 4, 6, 1, 3, 5, 7} {
		w.AddDatum(4*i, U32(lane))
	}
	roundWords(w, "Codebook", func(dst, stride, stride3 GPPhysical, i int) {
		w.VMOVDQU(X1, wordPlace(dst, stride, stride3, i, 0))
	}, nil)
	roundWords(w, "NVFP4", func(dst, stride, stride3 GPPhysical, i int) {
		w.VMOVLPS(X1, wordPlace(dst, stride, stride3, i%2*2, i/2*8))
		w.VMOVHPS(X1, wordPlace(dst, stride, stride3, i%2*2+1, i/2*8))
	}, func(r VecPhysical) { w.VPERMD(r, Y5, r) }, order)
}

// wordPlace is a place in vector i of a step.
func wordPlace(dst, stride, stride3 GPPhysical, i, disp int) Mem {
	switch i {
	case 0:
		return emit.At(dst, disp)
	case 3:
		return emit.Indexed(dst, stride3, 1, disp)
	}
	return emit.Indexed(dst, stride, uint8(i), disp)
}

// roundWords writes one: n steps of 32 numbers times groups, whose scale is their largest magnitude's. store stores eight of a group as words, in X1.
func roundWords(w emit.Width, format string, store func(dst, stride, stride3 GPPhysical, i int), order func(VecPhysical), constants ...Mem) {
	name := "words" + format
	w.Func(name, "func(dst *byte, src *float32, n, groups int)", name+" rounds n steps of 32 × groups numbers to words, for vectors of 16 × groups bytes.")
	dst, src, n, groups := w.Arg("dst", RDI), w.Arg("src", RSI), w.Arg("n", RCX), w.Arg("groups", RDX)
	stride, stride3, left, ahead := R8, R9, RAX, RBX
	w.MOVQ(groups, stride)
	w.SHLQ(Imm(4), stride)
	w.LEAQ(emit.Indexed(stride, stride, 2, 0), stride3)
	w.Move(w.RepeatBits("magnitude", 0x7fffffff), Y3)
	if order != nil {
		w.Move(constants[0], Y5)
	}
	w.Label("step")
	w.MOVQ(groups, left)
	w.MOVQ(src, ahead)
	w.Zero(Y0)
	w.Label("largest")
	for i := range 4 {
		w.VPAND(emit.At(ahead, 32*i), Y3, Y1)
		w.VPMAXUD(Y1, Y0, Y0) // as whole numbers, so that a NaN wins and shows in the scale
	}
	w.Advance(ahead, 128)
	w.SUBQ(Imm(1), left)
	w.JNZ(LabelRef("largest"))
	w.ReduceLanes(w.VPMAXUD, 0, 1)
	w.VMULSS(w.Repeat("wordScale", 1./wordValues), X0, X1)
	w.VMOVSS(X1, emit.Indexed(dst, stride, 4, 0))
	w.VMAXSS(w.Repeat("leastRounded", 0x1p-100), X0, X0)
	w.Move(w.Repeat("wordValues", wordValues), Y4)
	w.VDIVSS(X0, X4, X4)
	w.VBROADCASTSS(X4, Y4)
	w.MOVQ(groups, left)
	w.Label("group")
	for i := range 4 {
		w.VMULPS(emit.At(src, 32*i), Y4, Y1)
		w.VCVTPS2DQ(Y1, Y1)
		if order != nil {
			order(Y1)
		}
		w.VEXTRACTI128(Imm(1), Y1, X2)
		w.VPACKSSDW(X2, X1, X1)
		store(dst, stride, stride3, i)
	}
	w.Advance(src, 128)
	w.Advance(dst, 16)
	w.SUBQ(Imm(1), left)
	w.JNZ(LabelRef("group"))
	w.LEAQ(emit.Indexed(dst, stride, 4, 0), dst)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("step"))
	w.VZEROUPPER()
	w.RET()
}

// wordRow is a product of rows with rounded numbers. Its registers hold halves of bytes, the table of values, or of their low bytes, and of their high ones,
// and the sum.
type wordRow struct{ emit.Width }

func (w wordRow) nibbles() VecPhysical    { return w.Reg(8) }
func (w wordRow) table(i int) VecPhysical { return w.Reg(9 + i) }
func (w wordRow) sum() VecPhysical        { return w.Reg(15) }

// wordProducts write them.
func wordProducts(w emit.Width) {
	dotWordsNVFP4(w)
	dotWordsCodebook(w)
}

// write makes the function: body leaves the codes of a step in register 0, scale their scales in register 7, and take the words of the codes in registers 0 and
// 1, of the lower and the upper halves of bytes, in four registers. The product is by times as large, and times the scale behind a row that has one.
func (w wordRow) write(name, doc, arguments string, by float32, rowScale bool, start func(), body, scale func(src GPPhysical), take func() [4]VecPhysical) {
	r := beginRows(w.Width, name+w.Suffix(), "*byte", doc+" with words", arguments)
	codes := w.Bytes
	start()
	w.Move(w.RepeatBits("nibbles", 0x0f0f0f0f), w.nibbles())
	r.begin()
	w.Zero(w.sum())
	expander{Width: w.Width}.steps(r.at, r.src, r.left, codes*9/8, 5*codes, func(x, src GPPhysical) {
		body(src)
		low, high := w.Reg(0), w.Reg(1)
		w.VPSRLW(Imm(4), low, high)
		w.And(w.nibbles(), low, low)
		w.And(w.nibbles(), high, high)
		total := w.Reg(6)
		for i, v := range take() {
			m := emit.At(x, codes*i)
			switch {
			case i == 0:
				w.VPMADDWD(m, v, total)
			case w.AVX512():
				w.VPDPWSSD(m, v, total)
			default:
				w.VPMADDWD(m, v, v)
				w.VPADDD(v, total, total)
			}
		}
		w.VCVTDQ2PS(total, total)
		scale(src)
		w.VBROADCASTSS(emit.At(x, 4*codes), w.Reg(5))
		w.VMULPS(w.Reg(5), total, total)
		w.VFMADD231PS(w.Reg(7), total, w.sum())
	})
	w.ReduceLanes(w.VADDPS, 15, 1)
	w.VMULSS(w.Repeat(name+"Unit", by), X15, X0)
	if rowScale {
		w.VMULSS(r.behind(), X0, X0)
	}
	r.end()
}

// dotWordsNVFP4: words are values times 512. A block of 16 numbers is two lanes of 32 bits, whose scales a table has in pairs.
func dotWordsNVFP4(a emit.Width) {
	w := wordRow{a}
	values := w.Constant("e2m1")
	for i := 0; i < w.Bytes; i += 8 {
		w.AddDatum(i, U64([]uint64{0x0c08060403020100, 0xf4f8fafcfdfeff00}[i/8%2]))
	}
	var places Mem
	if w.AVX512() { // of blocks in what lies behind every other scale, in words
		places = w.Constant("blocks")
		for i := range 32 {
			w.AddDatum(2*i, U16(9*(i/8)+i%4))
		}
	}
	pair := func(src GPPhysical, b int) Mem {
		w.MOVBLZX(emit.At(src, 9*b), EAX)
		return emit.Indexed(RBX, RAX, 8, 0)
	}
	w.write("dotWordsNVFP4", "steps of quant.NVFP4_ROW, whose scales in e4m3 scales has in pairs,", ", scales *[2]float32", 1./512, true, func() {
		w.Arg("scales", RBX)
		w.Move(values, w.table(0))
		w.Move(w.RepeatBits("upperBytes", 0xff00ff00), w.table(1))
		if !w.AVX512() {
			return
		}
		w.Move(places, w.Reg(12))
		w.MOVL(U32(0xf0f0f0f0), EAX)
		w.KMOVD(EAX, K1)
		for b := 2; b < 8; b++ {
			w.MOVL(U32(1<<b), EAX)
			w.KMOVB(EAX, masks[b])
		}
	}, func(src GPPhysical) {
		if w.AVX512() {
			w.VPERMW(emit.At(src, 1), w.Reg(12), w.Reg(0))
			w.VPERMW(emit.At(src, 10), w.Reg(12), K1, w.Reg(0))
			return
		}
		for i, x := range []VecPhysical{X0, X1} {
			w.VMOVQ(emit.At(src, 18*i+1), x)
			w.VPINSRQ(Imm(1), emit.At(src, 18*i+10), x, x)
		}
		w.VINSERTI128(Imm(1), X1, Y0, Y0)
	}, func(src GPPhysical) {
		w.VMOVSD(pair(src, 0), X7)
		w.VMOVHPS(pair(src, 1), X7, X7)
		if w.AVX512() {
			for b := 2; b < 8; b++ {
				w.VBROADCASTSD(pair(src, b), masks[b], w.Reg(7))
			}
			return
		}
		w.VMOVSD(pair(src, 2), X5)
		w.VMOVHPS(pair(src, 3), X5, X5)
		w.VINSERTF128(Imm(1), X5, Y7, Y7)
	}, func() (words [4]VecPhysical) {
		for i := range 2 {
			v, even := w.Reg(i), w.Reg(2+i)
			w.VPSHUFB(v, w.table(0), v)
			w.VPSLLW(Imm(8), v, even)
			w.And(w.table(1), v, v)
			words[2*i], words[2*i+1] = even, v
		}
		return words
	})
}

var masks = []OpmaskPhysical{K0, K1, K2, K3, K4, K5, K6, K7}

// dotWordsCodebook: words are what a table says.
func dotWordsCodebook(a emit.Width) {
	w := wordRow{a}
	w.write("dotWordsCodebook", "steps of blocks in quant.NF4 or FP4, whose values table has the low and the high bytes of,", ", table *[2][16]byte", 1./codebookPeak, false, func() {
		w.Arg("table", RDX)
		for i := range 2 {
			if w.AVX512() {
				w.VBROADCASTI32X4(emit.At(RDX, 16*i), w.table(i))
			} else {
				w.VBROADCASTI128(emit.At(RDX, 16*i), w.table(i))
			}
		}
		if w.AVX512() {
			w.MOVL(U32(0xff00), EAX)
			w.KMOVW(EAX, K1)
		}
	}, func(src GPPhysical) {
		w.VMOVDQU(emit.At(src, 4), Y0)
		if w.AVX512() {
			w.VINSERTI64X4(Imm(1), emit.At(src, 40), Z0, Z0)
		}
	}, func(src GPPhysical) {
		w.VBROADCASTSS(emit.At(src, 0), w.Reg(7))
		if w.AVX512() {
			w.VBROADCASTSS(emit.At(src, 36), K1, w.Reg(7))
		}
	}, func() (words [4]VecPhysical) {
		for i := range 2 {
			v, low, high := w.Reg(i), w.Reg(2+i), w.Reg(4)
			w.VPSHUFB(v, w.table(0), low)
			w.VPSHUFB(v, w.table(1), high)
			w.VPUNPCKLBW(high, low, v)
			w.VPUNPCKHBW(high, low, low)
			words[2*i], words[2*i+1] = v, low
		}
		return words
	})
}
