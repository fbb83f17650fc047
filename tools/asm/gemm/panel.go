package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// panels writes the float kernels over a panel of weights, [n][32 rows]: each step multiplies one number (or a pair of
// bf16) of every activation row with that of 32 rows of weights (16 with AVX2). They also add the minima of the
// asymmetric formats, whose "weights" are the minima and whose "activations" are the sums of the blocks.
//
// Each step prefetches some bytes, most of them of a cache line that is on its way already: all cache lines of a row at once, as
// prefetchRows requests them, stalled the core for a tenth of the time.
//
// Twelve rows have 24 sums, which hide latencies of six cycles (VDPBF16PS on Zen 5), and load 14 vectors for them where six
// load 8 for 12; AVX2 has registers for six.
func panels(w emit.Width, most int) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		for rows := 1; rows <= most; rows++ {
			panel(w, "panelF32", rows, func(act, weight, sum VecPhysical) { w.VFMADD231PS(act, weight, sum) })
		}
		for rows := 1; w.AVX512() && rows <= most; rows++ {
			panel(w, "panelBF16", rows, func(act, weight, sum VecPhysical) { w.VPDPBF16PS(act, weight, sum) })
		}
	}
}

func panel(w emit.Width, kind string, rows int, multiply func(act, weight, sum VecPhysical)) {
	name := fmt.Sprintf("%sx%d%s", kind, rows, w.Suffix())
	w.Func(name, "func(out *float32, ld int, fresh bool, w *byte, wStep int, act *byte, stride int, actStep int, n int, ahead uintptr, aheadStep int)",
		fmt.Sprintf("%s adds the products of %d rows of activations with n steps of a panel to out, or sets out to them.", name, rows))
	out, ld := w.Arg("out", RDI), w.Arg("ld", RSI)
	weights, wStep := w.Arg("w", RAX), w.Arg("wStep", RBX)
	act, stride, actStep := w.Arg("act", RDX), w.Arg("stride", RCX), w.Arg("actStep", R11)
	n, ahead, aheadStep := w.Arg("n", R8), w.Arg("ahead", R14), w.Arg("aheadStep", R15)
	rowsAt := panelRows(w, rows, act, stride)
	sum := func(a, v int) VecPhysical { return w.Reg(2*a + v) }
	startSums(w, rows, out, ld, sum)
	nextOut(w, rows, ld)
	w.Label("loop")
	first, cast, casts := 12, 14, 2
	if w.AVX512() {
		first, cast, casts = 24, 26, 6
	}
	for v := range 2 {
		w.Move(emit.At(weights, v*w.Bytes), w.Reg(first+v))
	}
	w.PREFETCHT1(emit.At(ahead, 0))
	w.ADDQ(aheadStep, ahead)
	for a := range rows {
		w.VBROADCASTSS(rowsAt[a], w.Reg(cast+a%casts))
		for v := range 2 {
			multiply(w.Reg(cast+a%casts), w.Reg(first+v), sum(a, v))
		}
	}
	w.ADDQ(wStep, weights)
	w.ADDQ(actStep, act)
	if rows > 6 {
		w.ADDQ(actStep, seventhRow)
	}
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("loop"))
	storeSums(w, rows, out, ld, sum)
	w.VZEROUPPER()
	w.RET()
}

// seventhRow points at activation row 6 of a panel's.
var seventhRow = R12

// panelRows is where each of up to twelve rows of activations is, stride bytes apart; it uses R9, R10 and seventhRow.
func panelRows(w emit.Width, rows int, act, stride GPPhysical) (at []Mem) {
	if rows > 3 {
		w.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, R9)
	}
	if rows > 5 {
		w.LEAQ(Mem{Base: stride, Index: stride, Scale: 4}, R10)
	}
	if rows > 6 {
		w.LEAQ(Mem{Base: act, Index: R9, Scale: 2}, seventhRow)
	}
	for _, base := range []GPPhysical{act, seventhRow} {
		at = append(at, emit.At(base, 0), emit.Indexed(base, stride, 1, 0), emit.Indexed(base, stride, 2, 0),
			emit.Indexed(base, R9, 1, 0), emit.Indexed(base, stride, 4, 0), emit.Indexed(base, R10, 1, 0))
	}
	return at[:rows]
}

// sixthRow points at activation row 5, which no index of row 0 reaches.
var sixthRow = R10

// rowAddresses is where each of up to six rows of activations is, stride bytes apart; it uses R9 and sixthRow.
func rowAddresses(w emit.Width, rows int, act, stride GPPhysical) [6]Mem {
	if rows > 3 {
		w.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, R9)
	}
	if rows > 5 {
		w.LEAQ(Mem{Base: act, Index: stride, Scale: 4}, sixthRow)
		w.ADDQ(stride, sixthRow)
	}
	return [6]Mem{
		emit.At(act, 0), emit.Indexed(act, stride, 1, 0), emit.Indexed(act, stride, 2, 0),
		emit.Indexed(act, R9, 1, 0), emit.Indexed(act, stride, 4, 0), emit.At(sixthRow, 0),
	}
}

// startSums loads the sums of every row from out, ld bytes apart, or clears them if they are fresh. It advances out.
func startSums(w emit.Width, rows int, out, ld GPPhysical, sum func(a, v int) VecPhysical) {
	w.Load(w.Param("fresh"), R13.As8L())
	w.TESTB(R13.As8L(), R13.As8L())
	w.JNZ(LabelRef("fresh"))
	eachSum(w, rows, out, ld, func(a, v int, m Mem) { w.VMOVUPS(m, sum(a, v)) })
	w.JMP(LabelRef("start"))
	w.Label("fresh")
	for a := range rows {
		for v := range 2 {
			w.Zero(sum(a, v))
		}
	}
	w.Label("start")
}

// nextOut prefetches, for writing, the part of out that the next tile of as many rows will need: its rows lie pages apart. It uses R13.
func nextOut(w emit.Width, rows int, ld GPPhysical) {
	next := w.Arg("out", R13)
	for range rows {
		w.ADDQ(ld, next)
	}
	for range rows {
		for line := 0; line < 2*w.Bytes; line += 64 {
			w.PREFETCHW(next, line)
		}
		w.ADDQ(ld, next)
	}
}

// storeSums stores the sums of every row to out; it advances out.
func storeSums(w emit.Width, rows int, out, ld GPPhysical, sum func(a, v int) VecPhysical) {
	w.Load(w.Param("out"), out)
	eachSum(w, rows, out, ld, func(a, v int, m Mem) { w.VMOVUPS(sum(a, v), m) })
}

func eachSum(w emit.Width, rows int, out, ld GPPhysical, do func(a, v int, m Mem)) {
	for a := range rows {
		for v := range 2 {
			do(a, v, emit.At(out, v*w.Bytes))
		}
		if a+1 < rows {
			w.ADDQ(ld, out)
		}
	}
}
