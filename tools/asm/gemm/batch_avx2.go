package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// batch256 is the weight-stationary kernel of decode batches for AVX2 without VNNI: the codes of 16 rows of weights × 16 k (of bytes 8 k, in words) are unpacked
// once, into eight registers, and any number of rows of activations stream by, with their sums in memory. Both vectors share what is broadcast of a row. Its float operations and
// their order are those of the dot kernels. Registers: 0 to 7 codes, 8 and 9 the scales times 1.5·2²³, 10 and 11 masks or what sums were before the last
// widening, 12 and 13 sums, 14 and 15 what is being computed.
type batch256 struct {
	*codes
	low   *lowLayout // nil for bytes, which are multiplied as words
	words Mem        // the factor of low layouts
	frame Mem        // for integer sums that wait for the next phase
	label int
}

// Rows of activations in words, as kernels of bytes take them: the even and then the odd ones of every four k, and a float32 scale.
const (
	batchWordsScale = 64
	mostBatchRows   = 35 // gemm.streamRows
)

// batches256 writes the kernels of every code layout.
func batches256(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		for _, f := range layouts {
			b := batch256{low: lowOf(f)}
			if b.low != nil {
				b.words = w.RepeatBits("factor"+b.low.name, b.low.factor<<16|b.low.factor)
				f = b.low.shifted(f)
			}
			b.kernel(w, f, consts)
		}
		storeBatch(w)
	}
}

// kernel writes one of them. Registers: RDI sums, RAX codes, RBX scales, R13 minima, RDX activations, RCX their rows' distance, R8 blocks left, R11 the
// prefetch address and R14 its end, RSI a row of activations, R10 its float sums and R12 its integer sums, R15 pairs of rows left, R9 pairs of vectors left.
func (b *batch256) kernel(w emit.Width, f layout, consts constants) {
	name := "batch" + f.name + w.Suffix()
	w.Func(name, "func(sums *float32, rows uint64, w *byte, scale, mins *float32, act *byte, stride, step, blocks int, ahead uintptr, aheadStep int, beside *uintptr)",
		fmt.Sprintf("%s adds the products of rows of activations with 32 rows of %s weights to sums, [rows][32].", name, f.name))
	b.codes = &codes{Width: w, layout: f}
	if b.scalePhases() > 1 {
		w.Attributes(0)
		b.frame = w.AllocLocal(64*mostBatchRows + 64)
	}
	masks := 12
	if b.low != nil && b.low.widen < b.groups() {
		masks = 10 // there is no room for them
	}
	w.Arg("sums", RDI)
	w.Arg("scale", RBX)
	w.Arg("mins", R13)
	w.Arg("stride", RCX)
	weights, act, blocks := w.Arg("w", RAX), w.Arg("act", RDX), w.Arg("blocks", R8)
	aheadEnd := w.Arg("ahead", R14)
	b.codes = consts.codes(w, f, 10, masks)
	w.Label("loop")
	w.MOVQ(aheadEnd, R11)
	w.ADDQ(w.Slot("aheadStep"), aheadEnd)
	(&batch{codes: b.codes}).prefetchBeside()
	w.MOVL(U32(2), R9.As32())
	w.Label("vectors")
	b.prefetch()
	for phase := range b.phases() {
		b.unpack(phase)
		b.eachRow(func(act Mem, r int) { b.row(act, r, phase) })
	}
	b.move(64, 64)
	w.Advance(weights, 64)
	w.DECQ(R9)
	w.JNZ(LabelRef("vectors"))
	b.move(-128, 128*b.subs()-128)
	w.Advance(weights, 128*f.planes-128)
	w.ADDQ(w.Slot("step"), act)
	w.DECQ(blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// move advances the sums and what is of a scale's size.
func (b *batch256) move(sums, scales int) {
	b.Advance(RDI, sums)
	if scales == 0 {
		return
	}
	b.Advance(RBX, scales)
	if b.low != nil && b.low.mins {
		b.label++
		none := fmt.Sprint("plain", b.label)
		b.TESTQ(R13, R13)
		b.JZ(LabelRef(none))
		b.Advance(R13, scales)
		b.Label(none)
	}
}

// subs is how many scales a block of 32 has.
func (b *batch256) subs() int {
	if b.sub16 {
		return 2
	}
	return 1
}

// phases is in how many parts the k of a block are multiplied, groups the groups of four in one, and scalePhases the phases that share a scale.
func (b *batch256) phases() int {
	if b.low == nil {
		return 4
	}
	return 2
}
func (b *batch256) groups() int      { return 8 / b.phases() }
func (b *batch256) scalePhases() int { return b.phases() / b.subs() }

// prefetch prefetches half of what a block takes in memory, and a line more for its scales, up to the end of the block's share.
func (b *batch256) prefetch() {
	lines := b.planes + 1
	for i := range lines {
		b.PREFETCHT1(emit.At(R11, 64*i))
	}
	b.Advance(R11, 64*lines)
	b.CMPQ(R11, R14)
	b.CMOVQCC(b.Slot("sums"), R11) // which are in the cache
}

// unpack puts the codes of a phase in registers, of words the even k of every four and then the odd ones, and what a scale's last phase needs of it.
func (b *batch256) unpack(phase int) {
	for g := range b.groups() {
		for v := range 2 {
			j, at := phase*b.groups()+g, emit.At(RAX, 32*v)
			if b.low != nil {
				b.group(b.codes, j, at, b.Reg(2*g+v), Y15)
				continue
			}
			odd := b.Reg(4*g + 2 + v)
			b.group(b.codes, j, at, odd, Y15)
			b.Xor(b.flip, odd, odd)
			evenAndOdd(b.Width, odd, b.Reg(4*g+v))
		}
	}
	if sub := phase / b.scalePhases(); phase%b.scalePhases() == b.scalePhases()-1 {
		for v := range 2 {
			b.VMOVUPS(emit.At(RBX, 128*sub+32*v), Y15)
			b.VMULPS(b.magic, Y15, b.Reg(8+v))
		}
	}
}

// eachRow loops over pairs of rows, and does the last by itself where their number is odd.
func (b *batch256) eachRow(do func(act Mem, r int)) {
	b.label++
	again, single, done := fmt.Sprint("again", b.label), fmt.Sprint("single", b.label), fmt.Sprint("done", b.label)
	b.MOVQ(RDX, RSI)
	b.MOVQ(RDI, R10)
	if b.frame.Base != nil {
		b.LEAQ(b.frame, R12)
		b.ADDQ(Imm(63), R12) // a row's sums are one cache line
		b.ANDQ(I8(-64), R12)
	}
	b.Arg("rows", R15)
	b.SHRQ(Imm(1), R15)
	b.JZ(LabelRef(single))
	b.Label(again)
	do(emit.At(RSI, 0), 0)
	do(emit.Indexed(RSI, RCX, 1, 0), 1)
	b.LEAQ(emit.Indexed(RSI, RCX, 2, 0), RSI)
	b.Advance(R10, 256)
	if b.frame.Base != nil {
		b.Advance(R12, 128)
	}
	b.DECQ(R15)
	b.JNZ(LabelRef(again))
	b.Label(single)
	b.Arg("rows", R15)
	b.ANDQ(Imm(1), R15)
	b.JZ(LabelRef(done))
	do(emit.At(RSI, 0), 0)
	b.Label(done)
}

// waiting is what row r's integer sums were after the phase before.
func (b *batch256) waiting(r, v int) Mem { return emit.At(R12, 64*r+32*v) }

// row multiplies the codes in registers with row r of a pair.
func (b *batch256) row(act Mem, r, phase int) {
	first, last := phase%b.scalePhases() == 0, phase%b.scalePhases() == b.scalePhases()-1
	if b.low == nil {
		b.products16(act, r, phase, first)
	} else {
		b.products8(act, r, phase, first, last)
	}
	if !last {
		for v := range 2 {
			b.Move(b.Reg(12+v), b.waiting(r, v))
		}
		return
	}
	b.scaled(act, r, phase/b.scalePhases())
}

// products16 adds the products of words.
func (b *batch256) products16(act Mem, r, phase int, first bool) {
	for i := range 2 * b.groups() {
		b.VPBROADCASTD(act.Offset(32*(i%2)+4*(phase*b.groups()+i/2)), Y14)
		for v := range 2 {
			sum, tmp := b.Reg(12+v), b.Reg(15-v)
			switch b.VPMADDWD(Y14, b.Reg(2*i+v), tmp); {
			case i > 0:
				b.VPADDD(tmp, sum, sum)
			case first:
				b.VPADDD(b.magic, tmp, sum)
			default:
				b.VPADDD(b.waiting(r, v), tmp, sum)
			}
		}
	}
}

// products8 adds the products of bytes, in 16 bits as far as they fit, and then in 32.
func (b *batch256) products8(act Mem, r, phase int, first, last bool) {
	wide := b.low.widen <= b.groups() // the sums of a phase
	for g := range b.groups() {
		b.VPBROADCASTD(act.Offset(4*(phase*b.groups()+g)), Y14)
		for v := range 2 {
			sum, tmp := b.Reg(12+v), b.Reg(15-v)
			if g%b.low.widen != 0 {
				b.VPMADDUBSW(Y14, b.Reg(2*g+v), tmp)
				b.VPADDW(tmp, sum, sum)
				continue
			}
			b.VPMADDUBSW(Y14, b.Reg(2*g+v), sum)
			if !first && !wide {
				b.VPADDW(b.waiting(r, v), sum, sum)
			}
		}
		if g+1 == b.low.widen && g+1 < b.groups() {
			for v := range 2 {
				b.VPMADDWD(b.words, b.Reg(12+v), b.Reg(10+v))
			}
		}
	}
	if !wide && !last {
		return
	}
	for v := range 2 {
		sum := b.Reg(12 + v)
		b.VPMADDWD(b.words, sum, sum)
		if b.low.widen < b.groups() {
			b.VPADDD(b.Reg(10+v), sum, sum)
		}
		if wide && !first {
			b.VPADDD(b.waiting(r, v), sum, sum)
		}
	}
	if last {
		bias := q8Bias
		if b.sub16 {
			bias = q8Bias16 + 4*phase
		}
		b.VPBROADCASTD(act.Offset(bias), Y14)
		for v := range 2 {
			b.VPADDD(Y14, b.Reg(12+v), b.Reg(12+v))
		}
	}
}

// scaled adds the scaled integer sums of a row to its float sums and, after the last, minima × scale × sum of the activations.
func (b *batch256) scaled(act Mem, r, sub int) {
	at := q8Scale
	if b.low == nil {
		at = batchWordsScale
	}
	b.VBROADCASTSS(act.Offset(at), Y14)
	for v := range 2 {
		sum := b.Reg(12 + v)
		b.VFMSUB132PS(emit.At(RBX, 128*sub+32*v), b.Reg(8+v), sum)
		b.VFMADD213PS(emit.At(R10, 128*r+32*v), Y14, sum)
	}
	if sub == b.subs()-1 && b.low != nil && b.low.mins {
		b.minima(act)
	}
	for v := range 2 {
		b.VMOVUPS(b.Reg(12+v), emit.At(R10, 128*r+32*v))
	}
}

// minima adds them, where there are any.
func (b *batch256) minima(act Mem) {
	b.label++
	none := fmt.Sprint("none", b.label)
	b.TESTQ(R13, R13)
	b.JZ(LabelRef(none))
	at := q8Sum
	if b.sub16 {
		at += 4
	}
	for i := range b.subs() {
		b.VBROADCASTSS(act.Offset(at+4*i), Y14)
		for v := range 2 {
			b.VFMADD231PS(emit.At(R13, 128*i+32*v), Y14, b.Reg(12+v))
		}
	}
	b.Label(none)
}
