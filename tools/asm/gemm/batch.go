package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// batchRows is how many rows of activations a batch kernel has in hand at a time: their eight integer sums hide the latency
// of a product.
const batchRows = 4

// Registers of the batch kernels.
const (
	batchCode   = 0  // sixteen: the codes of a block, two for each group of k
	batchInt    = 16 // eight: integer sums, two for each row
	batchScale  = 24 // two
	batchOffset = 26 // two
	batchCast   = 28 // two
	batchMask   = 30 // two
)

// batch is a kernel that takes any number of rows of activations past each block of weights, whose codes it unpacks once,
// into registers. The float sums are in memory, compact: they are touched once a block. Its float operations and their
// order are those of the dot kernels, so that a row's result does not depend on how many rows come along.
type batch struct {
	*codes
	label int
}

// batches writes every form's.
func batches(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		for _, f := range forms {
			if f.planes < 8 {
				b := batch{}
				b.kernel(w, f, consts)
			}
		}
	}
}

// kernel writes one of them. Registers: RDI sums, RAX codes, RBX scales, R13 minima, RDX activations, RCX their rows' distance
// and R9 three times that, R8 blocks left, R11 and R12 what is read ahead and its step, RSI and R10 activations and sums of
// the rows in hand, R15 rows left.
func (b *batch) kernel(w emit.Width, f form, consts constants) {
	name := "batch" + f.name + w.Suffix()
	w.Func(name, "func(sums *float32, rows int, w *byte, scale, mins *float32, act *byte, stride, blocks int, ahead uintptr, step int)",
		fmt.Sprintf("%s adds the products of rows of activations with 32 rows of %s weights to sums, [rows][32].", name, f.name))
	sums, weights, scale, mins := w.Arg("sums", RDI), w.Arg("w", RAX), w.Arg("scale", RBX), w.Arg("mins", R13)
	act, stride, blocks := w.Arg("act", RDX), w.Arg("stride", RCX), w.Arg("blocks", R8)
	ahead, step := w.Arg("ahead", R11), w.Arg("step", R12)
	w.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, R9)
	b.codes = consts.codes(w, f, batchMask)
	w.Label("loop")
	for sub := range b.subs() {
		b.unpack(weights, scale, sub)
		w.MOVQ(act, RSI)
		w.MOVQ(sums, R10)
		w.Arg("rows", R15)
		b.eachGroup(batchRows, sub, ahead, step)
		b.eachGroup(2, sub, ahead, step)
		b.eachGroup(1, sub, ahead, step)
	}
	w.Advance(weights, 128*f.planes)
	w.Advance(scale, 128*b.subs())
	w.TESTQ(mins, mins)
	w.JZ(LabelRef("next"))
	w.Advance(mins, 128*b.subs())
	w.Label("next")
	w.Advance(act, lineBytes)
	w.SUBQ(Imm(1), blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// subs is how many scales a block of 32 has.
func (b *batch) subs() int {
	if b.sub16 {
		return 2
	}
	return 1
}

// groups are the groups of k that a scale stands for.
func (b *batch) groups(sub int) (from, to int) {
	return sub * 8 / b.subs(), (sub + 1) * 8 / b.subs()
}

func (b *batch) code(j, v int) VecPhysical { return b.Reg(batchCode + 2*j + v) }
func (b *batch) int(a, v int) VecPhysical  { return b.Reg(batchInt + 2*a + v) }

// unpack readies the codes and scales of a block, or of half of one.
func (b *batch) unpack(weights, scale GPPhysical, sub int) {
	from, to := b.groups(sub)
	for j := from; j < to; j++ {
		for v := range 2 {
			b.group(b.codes, j, emit.At(weights, v*b.Bytes), b.code(j, v), b.Reg(batchCast+v))
		}
	}
	for v := range 2 {
		b.VMOVUPS(emit.At(scale, sub*128+v*b.Bytes), b.Reg(batchScale+v))
		b.VMULPS(b.magic, b.Reg(batchScale+v), b.Reg(batchOffset+v))
	}
}

// eachGroup goes through the rows that are left, some at a time.
func (b *batch) eachGroup(rows, sub int, ahead, step GPPhysical) {
	b.label++
	again, done := fmt.Sprintf("again%d", b.label), fmt.Sprintf("done%d", b.label)
	b.SUBQ(Imm(uint64(rows)), R15)
	b.JLT(LabelRef(done))
	b.Label(again)
	at := [batchRows]Mem{emit.At(RSI, 0), emit.Indexed(RSI, RCX, 1, 0), emit.Indexed(RSI, RCX, 2, 0), emit.Indexed(RSI, R9, 1, 0)}
	b.block(at[:rows], sub, ahead)
	if rows == batchRows {
		b.LEAQ(Mem{Base: RSI, Index: RCX, Scale: 4}, RSI)
		b.ADDQ(step, ahead)
	} else {
		b.LEAQ(Mem{Base: RSI, Index: RCX, Scale: uint8(rows)}, RSI)
	}
	b.Advance(R10, 128*rows)
	b.SUBQ(Imm(uint64(rows)), R15)
	b.JGE(LabelRef(again))
	b.Label(done)
	b.Advance(R15, rows)
}

// block multiplies the codes in hand with some rows.
func (b *batch) block(act []Mem, sub int, ahead GPPhysical) {
	bias := lineBias
	if b.sub16 {
		bias = lineBias16 + 4*sub
	}
	for a := range act {
		for v := range 2 {
			b.VPBROADCASTD(act[a].Offset(bias), b.int(a, v))
		}
	}
	from, to := b.groups(sub)
	lines := b.aheadLines()
	for j := from; j < to; j++ {
		for i := (j - from) * lines / (to - from); i < (j-from+1)*lines/(to-from) && len(act) == batchRows; i++ {
			b.PREFETCHT1(emit.At(ahead, 64*i))
		}
		for a := range act {
			cast := b.Reg(batchCast + a%2)
			b.VPBROADCASTD(act[a].Offset(4*j), cast)
			for v := range 2 {
				b.Dot(cast, b.code(j, v), b.int(a, v))
			}
		}
	}
	for a := range act {
		cast := b.Reg(batchCast + a%2)
		b.VBROADCASTSS(act[a].Offset(lineScale), cast)
		for v := range 2 {
			sum := b.int(a, v)
			b.VFMSUB132PS(b.Reg(batchScale+v), b.Reg(batchOffset+v), sum)
			b.VFMADD213PS(emit.At(R10, 128*a+v*b.Bytes), cast, sum)
		}
	}
	if sub == b.subs()-1 {
		b.minima(act)
	}
	for a := range act {
		for v := range 2 {
			b.VMOVUPS(b.int(a, v), emit.At(R10, 128*a+v*b.Bytes))
		}
	}
}

// aheadLines is how many cache lines every four rows read ahead, so that eight rows read all that a block takes.
func (b *batch) aheadLines() int { return (b.planes + b.subs()) / b.subs() }

// minima adds minimum × scale × sum of the activations, where there are minima.
func (b *batch) minima(act []Mem) {
	b.label++
	none := fmt.Sprintf("none%d", b.label)
	b.TESTQ(R13, R13)
	b.JZ(LabelRef(none))
	at := lineSum
	if b.sub16 {
		at = lineSum + 4
	}
	for sub := range b.subs() {
		for a := range act {
			cast := b.Reg(batchCast + a%2)
			b.VBROADCASTSS(act[a].Offset(at+4*sub), cast)
			for v := range 2 {
				b.VFMADD231PS(emit.At(R13, 128*sub+v*b.Bytes), cast, b.int(a, v))
			}
		}
	}
	b.Label(none)
}
