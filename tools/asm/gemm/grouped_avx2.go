package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// A group of activations for AVX2 without VNNI: as many float32 scales as a tile has rows, then pairs of 16 bits, one for each row: of each block of
// 32 the sums of the bytes of either half, of each pair of blocks those of either, and of each half of a block what a 16-bit lane sums up: k ≡ 0 and 1 mod 4, and
// 2 and 3, negated. See gemm.GroupedActs.
const (
	sumsRows     = 4 * tileRows // bytes from one to the next
	wholeNumbers = 1<<15 - 1
	bytesOffset  = 128               // of the bytes that expanded scales are made for
	plainNumbers = wholeNumbers &^ 7 // without minima, where what codes are off by is eight times the multiple of the scale
)

// scaledGroups writes the kernels of grouped matmuls for AVX2 without VNNI. Codes stay the few bits that they are. The scales of a group's blocks become
// whole multiples of one float scale, so that VPMADDWD, which widens the sums of products anyway, multiplies by them, and a float operation is
// needed once for a group. What codes and minima are off by is multiplied, also in whole numbers, with the sums of the activations. Codes of five and six bits
// would overflow 16 bits after a few products: their sums start from the negative sums of the activations times 16 and 32, as if codes were signed, which
// leaves room for those of a scale.
func scaledGroups(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		order := lowerWords(w)
		wholeScales(w, order)
		wholeScalesMin(w, order)
		quantizeSums(w)
		for _, f := range layouts {
			if low := lowOf(f); low != nil {
				for rows := 2; rows <= tileRows; rows += 2 {
					t := scaledTile{newBlock256(w, f, low, consts, rows)}
					t.kernel()
				}
			}
		}
	}
}

// signed reports whether the sums of a layout start as if its codes were signed.
func (low *lowLayout) signed() bool { return low.widen < 8 && low.name != "L2" }

// What both kernels of whole scales use: registers of each of the two vectors of 16 rows of weights, and constants.
type wholes struct {
	emit.Width
	scales, mins, groupScales GPPhysical
	order                     VecPhysical // lowerWords
}

func newWholes(w emit.Width, order Mem) wholes {
	k := wholes{w, w.Arg("scales", RDI), w.Arg("mins", RSI), w.Arg("groupScales", RDX), w.Reg(15)}
	w.Move(order, k.order)
	return k
}

// lowerWords is an order of bytes that repeats the lower word of every 32 bits.
func lowerWords(w emit.Width) Mem {
	order := w.Constant("wholeOrder" + w.Suffix())
	for i := 0; i < w.Bytes; i += 4 {
		w.AddDatum(i, U32(uint32(i%16)*0x01010101+0x01000100))
	}
	return order
}

// each does something for either vector.
func (k wholes) each(do func(v, at int)) {
	for v := range 2 {
		do(v, v*k.Bytes)
	}
}

// loop does something for each of so many sub-blocks, whose scales are at R9 and minima at R10.
func (k wholes) loop(name string, count GPPhysical, do func()) {
	k.MOVQ(k.scales, R9)
	k.MOVQ(k.mins, R10)
	k.MOVQ(count, R11)
	k.Label(name)
	do()
	k.Advance(R9, 128)
	k.Advance(R10, 128)
	k.DECQ(R11)
	k.JNZ(LabelRef(name))
}

// factors makes of the largest number of a group its own scale, a step, of which that number is so many, and what turns numbers into steps.
func (k wholes) factors(largest, by VecPhysical, kind string, steps float32, at int) {
	k.VMULPS(k.Repeat("wholePart"+kind, 1/steps), largest, by)
	k.VMOVUPS(by, emit.At(k.groupScales, at))
	k.Move(k.Repeat("wholeMost"+kind, steps), by)
	k.VDIVPS(largest, by, by)
	k.Zero(Y14)
	k.VCMPPS(Imm(4), Y14, largest, Y14) // a group of zeros must not divide by zero
	k.And(Y14, by, by)
}

// multiple rounds the scale at R9 to a multiple, twice in 32 bits, and stores that in its place.
func (k wholes) multiple(by, to VecPhysical, at int) {
	k.VMULPS(emit.At(R9, at), by, to)
	k.VCVTPS2DQ(to, to)
	k.VPSHUFB(k.order, to, to)
	k.Move(to, emit.At(R9, at))
}

// wholeScales turns expanded scales into whole numbers where there are no minima. A weight is scale·(byte − 128), and the byte is factor·code: so it is
// factor·scale·code − 128·scale, and 128·scale is at most 2¹⁵ − 8 times the group's own scale; or factor·scale·code where codes are signed.
func wholeScales(w emit.Width, order Mem) {
	name := "wholeScales" + w.Suffix()
	w.Func(name, "func(scales, mins, groupScales *float32, subBlocks, groups int, factor, far float32)",
		name+" turns groups of so many sub-blocks of scales of 16 of 32 rows into pairs of equal 16-bit multiples of one scale for each row and group, and, as mins, those of two sub-blocks times -far/factor.")
	k := newWholes(w, order)
	subBlocks, groups := w.Arg("subBlocks", RCX), w.Arg("groups", R8)
	largest, by, words := func(v int) VecPhysical { return w.Reg(v) }, func(v int) VecPhysical { return w.Reg(2 + v) }, func(v int) VecPhysical { return w.Reg(4 + v) }
	positive, factor, off := w.Reg(13), w.Reg(12), w.Reg(11)
	w.Move(w.RepeatBits("groupPositive", 0x7fffffff), positive)
	w.Broadcast("factor", factor)
	w.Broadcast("far", off)
	w.VDIVPS(factor, off, off)
	w.VCVTPS2DQ(off, off)
	w.VPSHUFB(k.order, off, off)
	w.Zero(Y14)
	w.VPSUBW(off, Y14, off)
	w.Label("loop")
	k.each(func(v, _ int) { w.Zero(largest(v)) })
	k.loop("largest", subBlocks, func() {
		k.each(func(v, at int) {
			w.And(emit.At(R9, at), positive, w.Reg(6+v))
			w.VPMAXSD(w.Reg(6+v), largest(v), largest(v)) // as integers, so that a NaN wins
		})
	})
	k.each(func(v, at int) {
		k.factors(largest(v), by(v), "Plain", plainNumbers/float32(bytesOffset), at)
		w.VMULPS(factor, by(v), by(v))
	})
	w.MOVQ(k.scales, R9)
	w.MOVQ(k.mins, R10)
	w.MOVQ(subBlocks, R11)
	w.Label("each")
	k.each(func(v, at int) { k.multiple(by(v), words(v), at) })
	w.Advance(R9, 128)
	w.DECQ(R11)
	w.JZ(LabelRef("odd"))
	k.each(func(v, at int) {
		k.multiple(by(v), w.Reg(6+v), at)
		w.VPBLENDW(Imm(0xaa), w.Reg(6+v), words(v), words(v))
	})
	w.Advance(R9, 128)
	w.DECQ(R11)
	w.Label("odd")
	k.each(func(v, at int) {
		w.VPMULLW(off, words(v), words(v))
		w.Move(words(v), emit.At(R10, at))
	})
	w.Advance(R10, 128)
	w.TESTQ(R11, R11)
	w.JNZ(LabelRef("each"))
	w.MOVQ(R9, k.scales)
	w.MOVQ(R10, k.mins)
	w.Advance(k.groupScales, 128)
	w.DECQ(groups)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// wholeScalesMin does so with minima: a weight is factor·scale·code + (minimum − far·scale), far being 128, or 0 where codes are signed. Both that and 128·scale
// are at most 2¹⁵ − 1 times the group's own scale.
func wholeScalesMin(w emit.Width, order Mem) {
	name := "wholeScalesMin" + w.Suffix()
	w.Func(name, "func(scales, mins, groupScales *float32, subBlocks, groups int, factor, far float32)",
		name+" turns groups of so many sub-blocks of scales of 16 of 32 rows into pairs of equal 16-bit multiples of one scale for each row and group, and minima into such multiples of two sub-blocks.")
	k := newWholes(w, order)
	subBlocks, groups := w.Arg("subBlocks", RCX), w.Arg("groups", R8)
	largest, farthest := func(v int) VecPhysical { return w.Reg(v) }, func(v int) VecPhysical { return w.Reg(2 + v) }
	by, byFactor := largest, farthest
	scale, minimum, words := func(v int) VecPhysical { return w.Reg(4 + v) }, func(v int) VecPhysical { return w.Reg(6 + v) }, func(v int) VecPhysical { return w.Reg(8 + v) }
	positive, factor, far, offset := w.Reg(13), w.Reg(12), w.Reg(11), w.Reg(10)
	w.Move(w.RepeatBits("groupPositive", 0x7fffffff), positive)
	w.Broadcast("factor", factor)
	w.Broadcast("far", far)
	w.Move(w.Repeat("groupOffset", bytesOffset), offset)
	w.MOVQ(k.mins, R12) // where the multiples of two sub-blocks go: never behind what is still to be read
	w.Label("loop")
	k.each(func(v, _ int) {
		w.Zero(largest(v))
		w.Zero(farthest(v))
	})
	k.loop("largest", subBlocks, func() {
		k.each(func(v, at int) {
			w.VMOVUPS(emit.At(R9, at), scale(v))
			w.VMOVUPS(emit.At(R10, at), minimum(v))
			w.VFNMADD231PS(scale(v), far, minimum(v))
			w.And(scale(v), positive, scale(v))
			w.And(minimum(v), positive, minimum(v))
			w.VPMAXSD(scale(v), largest(v), largest(v)) // as integers, so that a NaN wins
			w.VPMAXSD(minimum(v), farthest(v), farthest(v))
		})
	})
	k.each(func(v, at int) {
		w.VMULPS(offset, largest(v), largest(v))
		w.VPMAXSD(largest(v), farthest(v), farthest(v))
		k.factors(farthest(v), by(v), "Min", wholeNumbers, at)
		w.VMULPS(factor, by(v), byFactor(v))
	})
	w.MOVQ(k.scales, R9)
	w.MOVQ(k.mins, R10)
	w.MOVQ(subBlocks, R11)
	w.Label("each")
	multiples := func() {
		k.each(func(v, at int) {
			w.VMOVUPS(emit.At(R10, at), minimum(v))
			w.VFNMADD231PS(emit.At(R9, at), far, minimum(v))
			w.VMULPS(by(v), minimum(v), minimum(v))
			w.VCVTPS2DQ(minimum(v), minimum(v))
			k.multiple(byFactor(v), scale(v), at)
		})
		w.Advance(R9, 128)
		w.Advance(R10, 128)
	}
	multiples()
	k.each(func(v, _ int) { w.Move(minimum(v), words(v)) })
	w.DECQ(R11)
	w.JZ(LabelRef("odd"))
	multiples()
	k.each(func(v, _ int) {
		w.VPSLLD(Imm(16), minimum(v), minimum(v))
		w.VPBLENDW(Imm(0xaa), minimum(v), words(v), words(v))
	})
	w.DECQ(R11)
	w.Label("odd")
	k.each(func(v, at int) { w.Move(words(v), emit.At(R12, at)) })
	w.Advance(R12, 128)
	w.TESTQ(R11, R11)
	w.JNZ(LabelRef("each"))
	w.MOVQ(R9, k.scales)
	w.MOVQ(R10, k.mins)
	w.Advance(k.groupScales, 128)
	w.DECQ(groups)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

type sums struct{ emit.Width }

// laneSums sets at to where, in a group of so many blocks, the sums of lanes begin.
func (w sums) laneSums(blocks, at GPPhysical) {
	w.LEAQ(emit.At(blocks, 1), at)
	w.SHRQ(Imm(1), at)
	w.LEAQ(emit.Indexed(at, blocks, 1, 1), at)
	w.IMUL3Q(U32(sumsRows), at, at)
}

// quantizeSums writes the quantization of a row of activations with per-group scales, and the sums that the tiles need: with VNNI where their sums start.
func quantizeSums(width emit.Width) {
	w := sums{width}
	name := "quantizeGrouped" + w.Suffix()
	w.Func(name, "func(head, codes *byte, src *float32, blocks, groups int)",
		name+" rounds groups of so many blocks of 32 activations of a row: head is where the row's scale lies, codes where its first block.")
	head, to, src := w.Arg("head", RDI), w.Arg("codes", RDX), w.Arg("src", RSI)
	blocks, groups, groupBytes := w.Arg("blocks", RCX), w.Arg("groups", R8), R14
	if w.VNNI {
		w.IMUL3Q(U32(groupBlock), blocks, groupBytes)
		w.Advance(groupBytes, groupHeader)
	} else {
		w.laneSums(blocks, R10)
		w.IMUL3Q(U32(groupBlock+2*sumsRows), blocks, R9)
		w.LEAQ(emit.Indexed(R9, R10, 1, 0), groupBytes)
	}
	positive, largest, by, ones8, ones16, order := w.Reg(15), w.Reg(0), w.Reg(14), w.Reg(13), w.Reg(12), w.Reg(11)
	w.Move(w.RepeatBits("groupPositive", 0x7fffffff), positive)
	w.Move(w.RepeatBits("groupOnes8", 0x01010101), ones8)
	w.Move(w.RepeatBits("groupOnes16", 0x00010001), ones16)
	packed := w.Constant("groupOrder" + w.Suffix())
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		w.AddDatum(4*i, U32(v))
	}
	w.Move(packed, order)
	w.Label("loop")
	w.MOVQ(src, R9)
	w.MOVQ(blocks, R11)
	w.Zero(largest)
	w.Label("largest")
	for v := range 4 {
		w.And(emit.At(R9, w.Bytes*v), positive, w.Reg(1+v))
		w.VPMAXSD(w.Reg(1+v), largest, largest) // as integers, so that a NaN wins and shows in the scale
	}
	w.Advance(R9, 128)
	w.DECQ(R11)
	w.JNZ(LabelRef("largest"))
	w.ReduceLanes(func(o ...Op) { w.VPMAXSD(o[0], o[1], o[2]) }, 0, 1)
	w.VMULSS(w.Repeat("group127th", 1./127), X0, X1)
	w.VMOVSS(X1, emit.At(head, 0))
	w.VMOVSS(w.Repeat("group127", 127), X4)
	w.VDIVSS(X0, X4, X4)
	w.VXORPS(X5, X5, X5)
	w.VCMPPS(Imm(4), X5, X0, X5) // a group of zeros must not divide by zero
	w.VANDPS(X5, X4, X4)
	w.VBROADCASTSS(X4, by)
	w.MOVQ(to, R12)
	w.MOVQ(blocks, R11)
	if w.VNNI {
		w.Zero(w.Reg(10))
	} else {
		w.startSums(head, blocks)
	}
	w.Label("round")
	for v := range 4 {
		w.VMULPS(emit.At(src, w.Bytes*v), by, w.Reg(v))
		w.VCVTPS2DQ(w.Reg(v), w.Reg(v))
	}
	w.VPACKSSDW(Y1, Y0, Y0)
	w.VPACKSSDW(Y3, Y2, Y2)
	w.VPACKSSWB(Y2, Y0, Y0)
	w.VPERMD(Y0, order, Y0)
	w.Move(Y0, emit.At(R12, 0))
	w.VPMADDUBSW(Y0, ones8, Y0)
	if w.VNNI {
		w.VPMADDWD(ones16, Y0, Y0)
		w.VPADDD(Y0, w.Reg(10), w.Reg(10))
	} else {
		w.addSums(ones16)
	}
	w.Advance(src, 128)
	w.Advance(R12, groupBlock)
	w.DECQ(R11)
	w.JNZ(LabelRef("round"))
	if w.VNNI {
		w.storeBias(head)
	}
	w.ADDQ(groupBytes, head)
	w.ADDQ(groupBytes, to)
	w.DECQ(groups)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// storeBias stores what the integer sums of a group start from, see dot.bias; register 10 has the sums of its bytes.
func (w sums) storeBias(head GPPhysical) {
	w.ReduceLanes(func(o ...Op) { w.VPADDD(o[0], o[1], o[2]) }, 10, 1)
	w.VPSLLD(Imm(7), X10, X10)
	w.VMOVDQU(w.RepeatBits("groupMagic", 0x4b400000), Y1)
	w.VPSUBD(X10, X1, X1)
	w.VMOVD(X1, emit.At(head, groupBias))
}

// startSums points at where sums of halves (R13), of blocks (R15, RAX) and of lanes (R10) go.
func (w sums) startSums(head, blocks GPPhysical) {
	w.laneSums(blocks, R10)
	w.ADDQ(head, R10)
	w.LEAQ(emit.At(head, sumsRows), R13)
	w.IMUL3Q(U32(sumsRows), blocks, R15)
	w.ADDQ(R13, R15)
	w.LEAQ(emit.At(R15, 2), RAX)
	w.MOVL(U32(0), emit.At(R15, 0)) // the pair of a single block
}

// addSums stores the sums of a block, of whose bytes register 0 has those of pairs.
func (w sums) addSums(ones16 VecPhysical) {
	for _, order := range []uint64{0b01001110, 0b10110001} {
		w.VPSHUFD(Imm(order), Y0, Y1)
		w.VPADDW(Y1, Y0, Y0)
	}
	w.Zero(Y1)
	w.VPSUBW(Y0, Y1, Y1)
	w.VEXTRACTI128(Imm(1), Y1, X2)
	w.VMOVD(X1, emit.At(R10, 0))
	w.VMOVD(X2, emit.At(R10, sumsRows))
	w.Advance(R10, 2*sumsRows)
	w.VPMADDWD(ones16, Y0, Y0)
	w.VEXTRACTI128(Imm(1), Y0, X1)
	w.VMOVD(X0, RBX.As32())
	w.VMOVD(X1, R9.As32())
	w.MOVW(RBX.As16(), emit.At(R13, 0))
	w.MOVW(R9.As16(), emit.At(R13, 2))
	w.ADDL(R9.As32(), RBX.As32())
	w.MOVW(RBX.As16(), emit.At(R15, 0))
	w.Advance(R13, sumsRows)
	w.Advance(R15, sumsRows)
	w.XCHGQ(R15, RAX) // the other half of a pair
}

// scaledTile is tile256 for grouped activations and weights with whole scales.
type scaledTile struct{ block256 }

// kernel writes one, of tileRows or fewer: the last tile of a matmul. Registers: RDI out, RSI its rows' distance, RDX activations, R13 the header of their group, RAX codes, RCX scales, R10 what
// they are off by, RBX the groups' scales, R8 groups left, R9 blocks left in one, R11 and R12 prefetch addresses, R14 the float sums and,
// behind them, the integer sums of the group.
func (t *scaledTile) kernel() {
	name := fmt.Sprintf("tilesScaled%sx%d%s", t.low.name, t.rows, t.Suffix())
	t.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale, off, groupScale *float32, act *byte, blocks, groups, tiles, header int, codes, codesEnd, scales, scalesEnd uintptr)",
		fmt.Sprintf("%s adds the products of tiles of %d rows of grouped activations with 16 rows of weights to out, or sets out to them.", name, t.rows))
	var frame Mem
	if sums := t.rows * t.vectors; 3*sums <= 12 {
		t.floats, t.wide = sums, 2*sums
	} else {
		t.Attributes(0) // its frame is too large for NOSPLIT
		frame = t.AllocLocal(2*floatBytes + 64)
	}
	out, ld, act := t.Arg("out", RDI), t.Arg("ld", RSI), t.Arg("act", RDX)
	ahead := [2]GPPhysical{t.Arg("codes", R11), t.Arg("scales", R12)}
	t.Label("tile")
	weights, groups := t.Arg("w", RAX), t.Arg("groups", R8)
	scale, off, groupScale := t.Arg("scale", RCX), t.Arg("off", R10), t.Arg("groupScale", RBX)
	for i, end := range []string{"codesEnd", "scalesEnd"} {
		t.CMPQ(ahead[i], t.Slot(end))
		t.CMOVQCC(weights, ahead[i]) // the panel: there is nothing left to prefetch
	}
	(&tile256{t.block256}).start(frame, out, ld)
	t.Label("group")
	t.MOVQ(act, R13)
	t.Load(t.Param("blocks"), R9)
	t.offsets(off)
	t.Load(t.Param("blocks"), R9)
	if t.low.signed() {
		sums{t.Width}.laneSums(R9, R15)
		t.ADDQ(R13, R15)
	}
	t.ADDQ(t.Slot("header"), act)
	t.Label("block")
	for i, lines := range aheadLines {
		for l := range lines {
			t.PREFETCHT1(emit.At(ahead[i], 64*l))
		}
		t.Advance(ahead[i], 64*lines)
	}
	groupsOf := 8 / t.subs()
	for sub := range t.subs() {
		for g := range groupsOf {
			t.group(weights, act, sub*groupsOf+g, g == 0)
		}
		t.widen(scale, sub)
	}
	t.Advance(weights, 8*halfGroup)
	t.Advance(scale, 128*t.subs())
	t.Advance(act, groupBlock)
	if t.low.signed() {
		t.Advance(R15, 2*sumsRows)
	}
	t.DECQ(R9)
	t.JNZ(LabelRef("block"))
	t.scaled(groupScale)
	t.DECQ(groups)
	t.JNZ(LabelRef("group"))
	t.store(out, ld)
	t.SUBQ(Imm(1), t.Slot("tiles"))
	t.JNZ(LabelRef("tile"))
	t.VZEROUPPER()
	t.RET()
}

// offsets starts the integer sums of a group with the sums of its activations times what the codes of each block are off by, a pair of blocks or
// halves of a block at a time.
func (t *scaledTile) offsets(off GPPhysical) {
	for r := range t.rows {
		for v := range t.vectors {
			t.Zero(t.int(r, v))
		}
	}
	if t.low.mins || !t.low.signed() {
		t.sumsOfPairs(off)
	}
	for r := range t.rows {
		for v := range t.vectors {
			t.Move(t.int(r, v), t.partial(r, v))
		}
	}
}

// sumsOfPairs adds the products to the sums in registers.
func (t *scaledTile) sumsOfPairs(off GPPhysical) {
	t.LEAQ(emit.At(R13, sumsRows), R15)
	if !t.sub16 {
		t.LEAQ(emit.Indexed(R9, R9, 2, 0), R9)
		t.LEAQ(emit.Indexed(R15, R9, 8, 0), R15)
		t.Load(t.Param("blocks"), R9)
		t.INCQ(R9)
		t.SHRQ(Imm(1), R9)
	}
	t.Label("pair")
	for v := range t.vectors {
		t.Move(emit.At(off, 32*v), t.Reg(12+v))
	}
	for r := range t.rows {
		t.VPBROADCASTD(emit.At(R15, 4*r), Y14)
		for v := range t.vectors {
			t.VPMADDWD(t.Reg(12+v), Y14, Y15)
			t.VPADDD(Y15, t.int(r, v), t.int(r, v))
		}
	}
	t.Advance(off, 128)
	t.Advance(R15, sumsRows)
	t.DECQ(R9)
	t.JNZ(LabelRef("pair"))
}

// group adds the products of group j of every row in 16 bits.
func (t *scaledTile) group(weights, act GPPhysical, j int, first bool) {
	for v := range t.vectors {
		t.code(weights, j, v, t.Reg(12+v), Y15)
	}
	for r := range t.rows {
		t.VPBROADCASTD(emit.At(act, 32*r+4*j), Y14)
		if first && t.low.signed() {
			t.signedStart(r, j/4)
			continue
		}
		for v := range t.vectors {
			t.product(Y14, t.Reg(12+v), Y15, t.int(r, v), first)
		}
	}
}

// signedStart sets the sums of a row to its first products, in register 14 times those of 12 and 13, and to what codes are off by times the sums of lanes, of
// the half of a block or of both.
func (t *scaledTile) signedStart(r, half int) {
	t.VPBROADCASTD(emit.At(R15, 4*r+sumsRows*half), t.int(r, 0))
	if !t.sub16 {
		t.VPBROADCASTD(emit.At(R15, 4*r+sumsRows), Y15)
		t.VPADDW(Y15, t.int(r, 0), t.int(r, 0))
	}
	t.VPSLLW(Imm(uint64(bits.TrailingZeros32(bytesOffset/t.low.factor))), t.int(r, 0), t.int(r, 0))
	t.VPMADDUBSW(Y14, Y13, Y15)
	t.VPADDW(Y15, t.int(r, 0), t.int(r, 1))
	t.VPMADDUBSW(Y14, Y12, Y14)
	t.VPADDW(Y14, t.int(r, 0), t.int(r, 0))
}

// widen adds the sums, times their block's scale, to those of the group.
func (t *scaledTile) widen(scale GPPhysical, sub int) {
	for v := range t.vectors {
		t.Move(emit.At(scale, 128*sub+32*v), t.Reg(12+v))
	}
	for r := range t.rows {
		for v := range t.vectors {
			sum := t.int(r, v)
			t.VPMADDWD(t.Reg(12+v), sum, sum)
			t.VPADDD(t.partial(r, v), sum, sum)
			t.Move(sum, t.partial(r, v))
		}
	}
}

// scaled adds the sums of a group, times its scales, to the float sums.
func (t *scaledTile) scaled(groupScale GPPhysical) {
	for v := range t.vectors {
		t.VMOVUPS(emit.At(groupScale, 32*v), t.Reg(12+v))
	}
	for r := range t.rows {
		t.VBROADCASTSS(emit.At(R13, 4*r), Y14)
		for v := range t.vectors {
			sum := t.int(r, v)
			t.VCVTDQ2PS(t.partial(r, v), sum)
			t.VMULPS(t.Reg(12+v), sum, sum)
			t.VFMADD213PS(t.held(r, v), Y14, sum)
			t.VMOVUPS(sum, t.held(r, v))
		}
	}
	t.Advance(groupScale, 128)
}
