package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// batch is the weight-stationary kernel of decode batches: it streams any number of rows of activations past each block of weights,
// whose codes it unpacks once, into registers. The float sums are in memory, contiguous: they are accessed once a block. Its float operations and their
// order are those of the dot kernels, so that a row's result does not depend on the size of the batch.
//
// Rows are computed in groups of up to six, whose twelve integer sums hide the latency of a product. They and the sixteen codes of a
// block leave four registers, so that scales, and all masks but one, are operands in memory; with a scale for 16 weights there
// are eight codes at a time, and registers for all.
type batch struct {
	*codes
	first batchRegisters
	label int
}

// batchRegisters are the first registers of each kind, and how many there are for broadcasts. Codes are in the lowest registers;
// scale 0: they are in memory, and so are masks beyond the last register.
type batchRegisters struct{ int, offset, cast, casts, scale, mask int }

// Registers of the batch kernels for either width of scales.
var (
	batchRegisters32 = batchRegisters{int: 16, offset: 28, cast: 30, casts: 1, mask: 31}
	batchRegisters16 = batchRegisters{int: 8, offset: 20, cast: 22, casts: 2, scale: 24, mask: 26}
)

// batchGroups is how many rows a group may have: byte i of the argument says how many groups of batchGroups[i] rows there are.
var batchGroups = []int{6, 5, 4, 3}

// batches writes the kernels of every code layout.
func batches(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		for _, f := range layouts {
			b := batch{first: batchRegisters32}
			if f.sub16 {
				b.first = batchRegisters16
			}
			b.kernel(w, f, consts)
		}
		storeBatch(w)
		prefetchOut(w)
	}
}

// kernel writes one of them. Registers: RDI sums, RAX codes, RBX scales, R13 minima, RDX activations, RCX their rows' distance
// and R9 three times that, R8 blocks left, R11 the prefetch address and R14 its end, RSI and R12 the first and fourth row of
// a group and R10 its sums, R15 groups left.
func (b *batch) kernel(w emit.Width, f layout, consts constants) {
	name := "batch" + f.name + w.Suffix()
	w.Func(name, "func(sums *float32, groups uint64, w *byte, scale, mins *float32, act *byte, stride, step, blocks int, ahead uintptr, aheadStep int, beside *uintptr)",
		fmt.Sprintf("%s adds the products of groups of rows of activations with 32 rows of %s weights to sums, [rows][32].", name, f.name))
	sums, weights, scale, mins := w.Arg("sums", RDI), w.Arg("w", RAX), w.Arg("scale", RBX), w.Arg("mins", R13)
	act, stride, blocks := w.Arg("act", RDX), w.Arg("stride", RCX), w.Arg("blocks", R8)
	aheadEnd := w.Arg("ahead", R14)
	w.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, R9)
	b.codes = consts.codes(w, f, b.first.mask, 32)
	w.Label("loop")
	w.MOVQ(aheadEnd, R11)
	w.ADDQ(w.Slot("aheadStep"), aheadEnd)
	b.prefetchBeside()
	for sub := range b.subs() {
		b.unpack(weights, scale, sub)
		w.MOVQ(act, RSI)
		w.MOVQ(sums, R10)
		for i, rows := range batchGroups {
			b.eachGroup(i, rows, sub)
		}
	}
	w.Advance(weights, 128*f.planes)
	w.Advance(scale, 128*b.subs())
	w.TESTQ(mins, mins)
	w.JZ(LabelRef("next"))
	w.Advance(mins, 128*b.subs())
	w.Label("next")
	w.ADDQ(w.Slot("step"), act)
	w.SUBQ(Imm(1), blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// besideBytes is gemm.BesideBytes.
const besideBytes = 512

// prefetchBeside prefetches the next of the addresses beside, where there are any and it is not 0. It uses R12.
func (b *batch) prefetchBeside() {
	b.label++
	none := fmt.Sprintf("alone%d", b.label)
	b.MOVQ(b.Slot("beside"), R12)
	b.TESTQ(R12, R12)
	b.JZ(LabelRef(none))
	b.ADDQ(Imm(8), b.Slot("beside"))
	b.MOVQ(Mem{Base: R12}, R12)
	b.TESTQ(R12, R12)
	b.JZ(LabelRef(none))
	for at := 0; at < besideBytes; at += 64 {
		b.PREFETCHT1(emit.At(R12, at))
	}
	b.Label(none)
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

func (b *batch) code(j, v int) VecPhysical { return b.Reg(2*(j%(8/b.subs())) + v) }
func (b *batch) int(a, v int) VecPhysical  { return b.Reg(b.first.int + 2*a + v) }
func (b *batch) offset(v int) VecPhysical  { return b.Reg(b.first.offset + v) }
func (b *batch) cast(i int) VecPhysical    { return b.Reg(b.first.cast + i%b.first.casts) }

// scale is those of vector v's rows.
func (b *batch) scale(sub, v int) Op {
	if b.first.scale > 0 {
		return b.Reg(b.first.scale + v)
	}
	return emit.At(RBX, sub*128+v*b.Bytes)
}

// unpack loads the codes and scales of a block, or of half of one.
func (b *batch) unpack(weights, scale GPPhysical, sub int) {
	from, to := b.groups(sub)
	for j := from; j < to; j++ {
		for v := range 2 {
			b.group(b.codes, j, emit.At(weights, v*b.Bytes), b.code(j, v), b.cast(v))
		}
	}
	for v := range 2 {
		dst := b.offset(v)
		if r, near := b.scale(sub, v).(VecPhysical); near {
			dst = r
		}
		b.VMOVUPS(emit.At(scale, sub*128+v*b.Bytes), dst)
		b.VMULPS(b.magic, dst, b.offset(v))
	}
}

// eachGroup loops over the groups of so many rows.
func (b *batch) eachGroup(i, rows, sub int) {
	b.label++
	again, done := fmt.Sprintf("again%d", b.label), fmt.Sprintf("done%d", b.label)
	b.Arg("groups", R15)
	b.SHRQ(U8(8*i), R15)
	b.ANDQ(Imm(255), R15)
	b.JZ(LabelRef(done))
	b.Label(again)
	third := Mem{Base: RSI, Index: R9, Scale: 1}
	act := []Mem{emit.At(RSI, 0), emit.Indexed(RSI, RCX, 1, 0), emit.Indexed(RSI, RCX, 2, 0),
		emit.At(R12, 0), emit.Indexed(R12, RCX, 1, 0), emit.Indexed(R12, RCX, 2, 0)}
	b.LEAQ(third, R12)
	b.block(act[:rows], sub)
	b.LEAQ(third, RSI)
	switch rows - 3 {
	case 3:
		b.LEAQ(third, RSI)
	case 2, 1:
		b.LEAQ(Mem{Base: RSI, Index: RCX, Scale: uint8(rows - 3)}, RSI)
	}
	b.Advance(R10, 128*rows)
	b.SUBQ(Imm(1), R15)
	b.JNZ(LabelRef(again))
	b.Label(done)
}

// block multiplies the codes in registers with some rows.
func (b *batch) block(act []Mem, sub int) {
	bias := q8Bias
	if b.sub16 {
		bias = q8Bias16 + 4*sub
	}
	for a := range act {
		for v := range 2 {
			b.VPBROADCASTD(act[a].Offset(bias), b.int(a, v))
		}
	}
	from, to := b.groups(sub)
	lines := b.aheadLines()
	for j := from; j < to; j++ {
		for i := (j - from) * lines / (to - from); i < (j-from+1)*lines/(to-from); i++ {
			b.PREFETCHT1(emit.At(R11, 64*i))
		}
		for i := range 2 {
			if b.planes == 8 { // bytes are prefetched for the next block: no unpacking hides their latency
				b.PREFETCHT0(emit.At(RAX, 128*(8+j)+64*i))
			}
		}
		for a := range act {
			b.VPBROADCASTD(act[a].Offset(4*j), b.cast(a))
			for v := range 2 {
				b.Dot(b.cast(a), b.code(j, v), b.int(a, v))
			}
		}
	}
	b.Advance(R11, 64*lines)
	b.CMPQ(R11, R14)
	b.CMOVQCC(b.Slot("sums"), R11) // which are in the cache: the block's share has been prefetched
	for a := range act {
		b.VBROADCASTSS(act[a].Offset(q8Scale), b.cast(a))
		for v := range 2 {
			sum := b.int(a, v)
			b.VFMSUB132PS(b.scale(sub, v), b.offset(v), sum)
			b.VFMADD213PS(emit.At(R10, 128*a+v*b.Bytes), b.cast(a), sum)
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

// aheadLines is how many cache lines a group prefetches: half of what a block takes in memory, since every block has two
// groups at least, or one twice.
func (b *batch) aheadLines() int { return b.planes + 1 }

// minima adds minimum × scale × sum of the activations, where there are minima.
func (b *batch) minima(act []Mem) {
	b.label++
	none := fmt.Sprintf("none%d", b.label)
	b.TESTQ(R13, R13)
	b.JZ(LabelRef(none))
	at := q8Sum
	if b.sub16 {
		at = q8Sum + 4
	}
	for sub := range b.subs() {
		for a := range act {
			b.VBROADCASTSS(act[a].Offset(at+4*sub), b.cast(a))
			for v := range 2 {
				b.VFMADD231PS(emit.At(R13, 128*sub+v*b.Bytes), b.cast(a), b.int(a, v))
			}
		}
	}
	b.Label(none)
}

// storeBatch writes the kernel that copies the sums of a batch to out.
func storeBatch(w emit.Width) {
	name := "storeBatch" + w.Suffix()
	w.Func(name, "func(out *float32, ld int, sums *float32, rows int)",
		name+" copies sums, [rows][32], to out, whose rows lie ld bytes apart.")
	out, ld, sums, rows := w.Arg("out", RDI), w.Arg("ld", RSI), w.Arg("sums", RAX), w.Arg("rows", RCX)
	w.Label("loop")
	for v := range 128 / w.Bytes {
		w.VMOVUPS(emit.At(sums, v*w.Bytes), w.Reg(v))
		w.VMOVUPS(w.Reg(v), emit.At(out, v*w.Bytes))
	}
	w.Advance(sums, 128)
	w.ADDQ(ld, out)
	w.SUBQ(Imm(1), rows)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}

// prefetchOut writes the kernel that prefetches the memory that storeBatch will write.
func prefetchOut(w emit.Width) {
	w.Func("prefetchOut", "func(out *float32, ld int, rows int)",
		"prefetchOut prefetches rows of 32 numbers, ld bytes apart, for writing.")
	out, ld, rows := w.Arg("out", RDI), w.Arg("ld", RSI), w.Arg("rows", RCX)
	w.Label("loop")
	for line := range 2 {
		w.PREFETCHW(out, 64*line)
	}
	w.ADDQ(ld, out)
	w.SUBQ(Imm(1), rows)
	w.JNZ(LabelRef("loop"))
	w.RET()
}
